use onus_agents::{ActorSource, InstanceSource};
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
        ActorSource::Flag => "--as says so".to_owned(),
        ActorSource::Variable => "ONUS_ACTOR says so".to_owned(),
        ActorSource::Process => format!(
            "this runs under process {}, which is registered as that actor",
            process.as_ref().map_or(0, |process| process.pid)
        ),
        ActorSource::Harness(name) => format!("the environment shows that {name} runs this"),
        ActorSource::Configuration => "identity.actor in your configuration says so".to_owned(),
        ActorSource::Terminal => "you are at a terminal, and no agent is running it".to_owned(),
    };
    let instance_because = match who.told_by {
        InstanceSource::Person => "a person is one instance everywhere",
        InstanceSource::Name => "ONUS_INSTANCE says so",
        InstanceSource::Request => "the call names its conversation",
        InstanceSource::Variable => {
            "the harness's variable names a conversation of that process that has not ended"
        }
        InstanceSource::OnlyOne => "it is the only open conversation registered for that process",
        InstanceSource::VariableAlone => {
            "the harness's variable names the conversation; its process is not registered, or cannot be seen from here"
        }
        InstanceSource::Connection => {
            "it is the connection of the agent's MCP server; the agent has no hooks that could tell more"
        }
        InstanceSource::Folder => {
            "only the folder identifies it, so two conversations here look the same; `onus setup` or ONUS_INSTANCE fixes that"
        }
    };
    let yours = &status.value.yours;
    let value = json!({
        "actor": who.actor, "actor_because": actor_because,
        "instance": who.instance, "instance_because": instance_because, "known_by": who.known_by(),
        "process": process, "holds": yours, "seats": status.value.your_seats,
    });
    context.out.document_or(value, &status.notices, || {
        context.out.prose(&format!("{}: {actor_because}", who.actor));
        context.out.prose(&format!("instance {}: {instance_because}", escape_line(who.instance.as_str())));
        context.out.prose(&format!("holds {}", super::status::yours(&status.value)));
    });
    Ok(())
}
