use onus_agents::NamedBy;
use onus_core::actor::KnownBy;
use onus_store::Access;
use serde_json::json;

use crate::context::Context;
use crate::output::escape_line;

/// Who you are to onus, and how it knows
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(context: &Context, _args: Args) -> super::Result {
    let mut engine = context.engine(Access::Read)?;
    let (who, registered) = context.who(&mut engine)?;
    let identity = context.identity(&mut engine)?;
    let status = engine.status(Some(&identity))?;
    let process = registered.as_ref().and_then(|known| known.process.as_ref());
    let actor_because = match &who.named_by {
        NamedBy::Flag => "--as says so".to_owned(),
        NamedBy::Variable => "ONUS_ACTOR says so".to_owned(),
        NamedBy::Process => format!(
            "process {}, which this one runs under, is registered as it",
            process.map_or(0, |process| process.pid)
        ),
        NamedBy::Harness(name) => format!("the environment has the marks of {name}"),
        NamedBy::Configuration => "identity.actor in your configuration says so".to_owned(),
        NamedBy::Terminal => "you sit at a terminal, and no agent runs it".to_owned(),
    };
    let instance_because = match who.known_by {
        KnownBy::Person => "a person is one instance everywhere",
        KnownBy::Name => "ONUS_INSTANCE says so",
        KnownBy::Ancestor => "a hook, `onus run` or `onus instance register` registered the process above",
        KnownBy::Harness => "the harness's own variable names the conversation",
        KnownBy::Worktree => {
            "nothing but the folder tells: two conversations here look the same; onus setup, or ONUS_INSTANCE, mends that"
        }
    };
    let yours = &status.value.yours;
    if context.out.json {
        let value = json!({
            "actor": who.actor, "actor_because": actor_because,
            "instance": who.instance, "instance_because": instance_because, "known_by": who.known_by,
            "process": process, "holds": yours,
        });
        context.out.document(value, &status.notices);
        return Ok(());
    }
    context.out.line(&format!("{}: {actor_because}", who.actor));
    context.out.line(&format!("instance {}: {instance_because}", escape_line(who.instance.as_str())));
    let holds = if yours.is_empty() { "nothing".to_owned() } else { yours.join(", ") };
    context.out.line(&format!("holds {holds}"));
    context.out.notices(&status.notices);
    Ok(())
}
