use std::path::Path;

use onus_agents::Client;
use onus_core::lease::Process;
use onus_core::refusal::Refusal;
use onus_engine::process;
use onus_server::{Entered, Host};
use onus_store::Access;

use crate::context::{Context, target};
use crate::scopes;

/// Serve an agent its tools over the Model Context Protocol
///
/// Started by the agent's program, which speaks the protocol with it on standard input and output; it ends when standard
/// input does. The tools are ready, claim, touch, note, done, release, block, show, add and status. Who calls is found
/// out in every call: --as or ONUS_ACTOR, a registered process above, the program's variables, then what the program calls
/// itself; never a person. Claims are bound to that program's process and lapse when it dies.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(context: &Context, _args: Args) -> super::Result {
    if context.out.json {
        return Err(Refusal::usage("onus mcp speaks its protocol on standard output: leave out --json"));
    }
    // Once, at the beginning: whoever is above us later need not be who started us.
    let ancestry = process::ancestry();
    let connection = match ancestry.first() {
        Some(own) => format!("mcp-{}-{}", own.pid, own.start),
        None => format!("mcp-{}", onus_engine::new_uid(onus_store::clock::now().wall_ms)),
    };
    let client = process::launcher().or_else(|| ancestry.get(1).cloned());
    let (entered, scoped, placed) = (context.again(), context.again(), context.again());
    let name = connection.clone();
    onus_server::serve_mcp(Host {
        connection,
        enter: Box::new(move |client_name, access| {
            let asks = Client { name: client_name, connection: &name };
            enter(&entered()?, access, &ancestry, asks, client.as_ref())
        }),
        task: Box::new(|| target(None)),
        scope: Box::new(move |globs| scopes::scope(&scoped()?, globs)),
        path: Box::new(move |path| scopes::path_in_repository(&placed()?, Path::new(path))),
    })
}

fn enter(
    context: &Context,
    access: Access,
    ancestry: &[Process],
    asks: Client<'_>,
    client: Option<&Process>,
) -> Result<Entered, Refusal> {
    let mut engine = context.engine(access)?;
    let (identity, registered) = context.identity_of_client(&mut engine, ancestry, asks)?;
    Ok(Entered {
        engine,
        identity,
        process: registered.or_else(|| client.cloned()),
        worktree: context.place.as_ref().map(|place| place.root.to_string_lossy().into_owned()),
        branch: context.place.as_ref().and_then(|place| place.branch.clone()),
    })
}
