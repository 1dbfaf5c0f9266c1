use clap::Subcommand;
use onus_core::actor::ActorKind;
use onus_core::refusal::{Code, Refusal, Step};
use onus_repo::approval::{By, Definition, Kind};
use onus_store::Access;
use serde_json::{Value, json};

use crate::context::Context;
use crate::output::escape_line;

/// See and approve the commands that this repository configures
///
/// Anyone may have written them, so none runs before a person approved exactly that command in this clone: its words, its
/// variables and its time limit. A changed command must be approved again. An agent approves nothing; a pipeline approves by a
/// digest that was recorded outside the repository.
///
/// Without a command, it lists them.
#[derive(Subcommand, Debug)]
pub(crate) enum Action {
    /// List the commands, and whether each is approved
    List,
    /// Approve commands as they are now
    Approve(Approve),
    /// Take an approval back
    Revoke {
        /// The command's name, as `trust list` shows it
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(clap::Args, Debug)]
pub(crate) struct Approve {
    /// The commands' names, as `trust list` shows them
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Approve all of them
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Approve it only if it is still this one; pipelines need it
    #[arg(long, value_name = "SHA256", conflicts_with = "all")]
    digest: Option<String>,
}

pub(crate) fn run(context: &Context, action: Option<Action>) -> super::Result {
    let config = &context.host.config;
    let own = config.worktrees().setup.into_iter().chain(config.landing().pr);
    let gates = config.gates().iter().filter_map(onus_host::gates::definition);
    let definitions: Vec<Definition> = own.chain(gates).collect();
    match action.unwrap_or(Action::List) {
        Action::List => list(context, &definitions),
        Action::Approve(args) => approve(context, &definitions, args),
        Action::Revoke { name } => {
            let definition = named(&definitions, &name)?;
            let approvals = context.host.approvals()?;
            let is_news = approvals.is_approved(definition);
            approvals.revoke(definition)?;
            answer(context, definition, if is_news { "no longer approved" } else { "not approved" })
        }
    }
}

fn approve(context: &Context, definitions: &[Definition], args: Approve) -> super::Result {
    if args.names.is_empty() && !args.all {
        return Err(Refusal::usage("name a command, or --all").next(Step::Commands));
    }
    if args.digest.is_some() && args.names.len() != 1 {
        return Err(Refusal::usage("a digest is of one command: name that one"));
    }
    let chosen: Vec<&Definition> = match args.all {
        true => definitions.iter().collect(),
        false => args.names.iter().map(|name| named(definitions, name)).collect::<Result<_, _>>()?,
    };
    let actor = context.host.identity(&mut context.host.engine(Access::Read)?)?.actor;
    let by = match &args.digest {
        Some(digest) if actor.kind() != ActorKind::Agent => By::Digest(digest),
        _ => By::Person(&actor),
    };
    let approvals = context.host.approvals()?;
    for definition in &chosen {
        approvals.approve(definition, by)?;
    }
    match (chosen.as_slice(), context.out.json) {
        ([one], _) if !args.all => return answer(context, one, "approved"),
        (all, true) => {
            let all: Result<Vec<Value>, Refusal> = all.iter().map(|it| document(context, it)).collect();
            context.out.document(json!({ "commands": all? }), &[]);
        }
        ([], false) => context.out.line("this repository configures no commands"),
        (all, false) => {
            for definition in all {
                answer(context, definition, "approved")?;
            }
        }
    }
    Ok(())
}

fn named<'d>(definitions: &'d [Definition], name: &str) -> Result<&'d Definition, Refusal> {
    definitions.iter().find(|definition| definition.name == name).ok_or_else(|| {
        let known: Vec<&str> = definitions.iter().map(|definition| definition.name.as_str()).collect();
        let message = match known.as_slice() {
            [] => "this repository configures no commands".to_owned(),
            known => format!("no command of that name is configured here; configured: {}", known.join(", ")),
        };
        Refusal::new(Code::NotFound, message).next(Step::Commands)
    })
}

fn document(context: &Context, definition: &Definition) -> Result<Value, Refusal> {
    let mut value = json!(definition);
    value["digest"] = json!(definition.digest());
    value["approved"] = json!(context.host.approvals()?.is_approved(definition));
    Ok(value)
}

/// The command as a list of its words.
fn line(definition: &Definition) -> String {
    escape_line(&json!(definition.argv).to_string())
}

fn list(context: &Context, definitions: &[Definition]) -> super::Result {
    if context.out.json {
        let all: Result<Vec<Value>, Refusal> = definitions.iter().map(|it| document(context, it)).collect();
        context.out.document(json!({ "commands": all? }), &[]);
        return Ok(());
    }
    if definitions.is_empty() {
        context.out.line("this repository configures no commands");
    }
    for definition in definitions {
        let is_approved = context.host.approvals()?.is_approved(definition);
        let state = if is_approved { context.out.good("approved") } else { context.out.bad("not approved") };
        context.out.line(&format!("{} ({state}): {}", definition.name, line(definition)));
        let names: Vec<&str> = definition.env.iter().map(String::as_str).collect();
        let names = if names.is_empty() { "no variables of yours".to_owned() } else { names.join(", ") };
        let limit = onus_core::time::Span::from_ms(i64::try_from(definition.timeout_ms).unwrap_or(i64::MAX));
        let place = match (definition.kind, definition.folder.as_str()) {
            (Kind::SetUp, _) => "in a new worktree".to_owned(),
            (_, "") => "at the root of the work tree".to_owned(),
            (_, folder) => format!("in {}", escape_line(folder)),
        };
        context.out.line(&format!("  {}, {place}, at most {limit}, with {names}", definition.kind.as_str()));
        context.out.line(&format!("  {}", definition.digest()));
    }
    Ok(())
}

fn answer(context: &Context, definition: &Definition, what: &str) -> super::Result {
    let value = document(context, definition)?;
    context.out.show(value, &[], || format!("{} is {what}: {}", definition.name, line(definition)));
    Ok(())
}
