use onus_agents::{NamedBy, ToldBy};
use onus_store::Access;
use serde_json::json;

use crate::context::Context;
use crate::output::escape_line;

/// Show who you are to onus, and how it knows
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(context: &Context, _args: Args) -> super::Result {
    let mut engine = context.host.engine(Access::Read)?;
    let (who, process) = context.host.who(&mut engine)?;
    let identity = context.host.identity(&mut engine)?;
    let status = engine.status(Some(&identity))?;
    let actor_because = match &who.named_by {
        NamedBy::Flag => "--as says so".to_owned(),
        NamedBy::Variable => "ONUS_ACTOR says so".to_owned(),
        NamedBy::Process => format!(
            "this runs under process {}, which is registered as that actor",
            process.as_ref().map_or(0, |process| process.pid)
        ),
        NamedBy::Harness(name) => format!("the environment shows that {name} runs this"),
        NamedBy::Configuration => "identity.actor in your configuration says so".to_owned(),
        NamedBy::Terminal => "you are at a terminal, and no agent is running it".to_owned(),
    };
    let instance_because = match who.told_by {
        ToldBy::Person => "a person is one instance everywhere",
        ToldBy::Name => "ONUS_INSTANCE says so",
        ToldBy::Request => "the call names its conversation",
        ToldBy::Variable => "the harness's variable names a conversation of that process that has not ended",
        ToldBy::OnlyOne => {
            "it is the only one that a hook, `onus run` or `onus instance register` registered for that process and that has not ended"
        }
        ToldBy::VariableAlone => {
            "the harness's variable names the conversation; its process is not registered, or cannot be seen from here"
        }
        ToldBy::Connection => {
            "it is the connection of the agent's MCP server; the agent has no hooks that could tell more"
        }
        ToldBy::Folder => {
            "only the folder identifies it, so two conversations here look the same; `onus setup` or ONUS_INSTANCE fixes that"
        }
    };
    let yours = &status.value.yours;
    if context.out.json {
        let value = json!({
            "actor": who.actor, "actor_because": actor_because,
            "instance": who.instance, "instance_because": instance_because, "known_by": who.known_by(),
            "process": process, "holds": yours, "seats": status.value.your_seats,
        });
        context.out.document(value, &status.notices);
        return Ok(());
    }
    context.out.prose(&format!("{}: {actor_because}", who.actor));
    context.out.prose(&format!("instance {}: {instance_because}", escape_line(who.instance.as_str())));
    let seats = status.value.your_seats.iter().map(|name| format!("seat {}", escape_line(name)));
    let all: Vec<String> = yours.iter().cloned().chain(seats).collect();
    let holds = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
    context.out.prose(&format!("holds {holds}"));
    context.out.notices(&status.notices);
    Ok(())
}
