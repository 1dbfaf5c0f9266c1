use onus_core::actor::{ActorName, Tier};
use onus_core::command::Command;
use onus_engine::{Answer, Reply};
use serde_json::json;

use crate::args::{Key, parse};
use crate::context::Context;

/// List and manage actors: people, agents and CI, with their tiers and aliases
///
/// Without a command, it lists them.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Verb {
    /// List every actor, with its tier and aliases
    List,
    /// Register an actor before its first use
    Register {
        /// human:NAME, agent:NAME or ci:NAME
        #[arg(value_parser = parse::<ActorName>)]
        actor: ActorName,
        /// Its tier (people only)
        #[arg(long, value_name = "0..3", value_parser = parse::<Tier>)]
        tier: Option<Tier>,
        #[command(flatten)]
        key: Key,
    },
    /// Set an actor's tier, how far it is trusted: 0 to 3 (people only)
    Tier {
        /// human:NAME, agent:NAME or ci:NAME
        #[arg(value_parser = parse::<ActorName>)]
        actor: ActorName,
        /// 0 (least) to 3
        #[arg(value_name = "0..3", value_parser = parse::<Tier>)]
        tier: Tier,
        #[command(flatten)]
        key: Key,
    },
    /// Give an actor a second name (people only)
    Alias {
        /// human:NAME, agent:NAME or ci:NAME
        #[arg(value_parser = parse::<ActorName>)]
        actor: ActorName,
        /// The alias; it must not be an actor already
        #[arg(value_parser = parse::<ActorName>)]
        alias: ActorName,
        #[command(flatten)]
        key: Key,
    },
}

pub(crate) fn run(context: &Context, verb: Option<Verb>) -> super::Result {
    let (command, key) = match verb.unwrap_or(Verb::List) {
        Verb::List => return list(context),
        Verb::Register { actor, tier, key } => (Command::RegisterActor { actor, tier }, key),
        Verb::Tier { actor, tier, key } => (Command::SetTier { actor, tier }, key),
        Verb::Alias { actor, alias, key } => (Command::AddAlias { actor, alias }, key),
    };
    let reply = context.run(command, key.key)?;
    print(context, &reply)
}

fn print(context: &Context, reply: &Reply) -> super::Result {
    let Answer::Actor(actor) = &reply.answer else { return Err(super::unexpected()) };
    context.out.reply(reply, json!(actor), || {
        format!("{}: tier {}{}", actor.name, actor.tier, aliases(&actor.aliases, ","))
    });
    Ok(())
}

fn aliases(names: &[String], separator: &str) -> String {
    if names.is_empty() { String::new() } else { format!("{separator} also {}", names.join(", ")) }
}

fn list(context: &Context) -> super::Result {
    let actors = context.host.engine(onus_store::Access::Read)?.actors()?;
    context.out.document_or(json!({ "actors": actors }), &[], || {
        let width = actors.iter().map(|actor| actor.name.to_string().len()).max().unwrap_or_default();
        for actor in actors {
            let aliases = aliases(&actor.aliases, " ");
            context.out.line(&format!("{:width$}  tier {}{aliases}", actor.name.to_string(), actor.tier));
        }
    });
    Ok(())
}
