use onus_core::refusal::Refusal;
use onus_host::Connection;

use crate::context::Context;

/// Serve onus's tools to an agent over the Model Context Protocol
///
/// The agent's program starts it and speaks the protocol with it on standard input and output; it ends when standard
/// input does. The tools are ready, claim, touch, note, done, release, block, show, add, gate_run and status. Each call resolves
/// its actor from, in this order: --as or ONUS_ACTOR, a registered parent process, the program's environment variables,
/// the name the program gives itself; never a person. Claims are bound to that program's process and lapse when it dies.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(context: &Context, _args: Args) -> super::Result {
    if context.out.json {
        return Err(Refusal::usage("onus mcp uses standard output for its protocol: leave out --json"));
    }
    onus_server::serve_mcp(Connection::new(&context.host))
}
