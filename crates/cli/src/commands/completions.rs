use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::context::Context;

/// Print a completion script for your shell
///
/// For example: onus completions bash > ~/.local/share/bash-completion/completions/onus
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Your shell
    shell: Shell,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "onus", &mut script);
    let script = String::from_utf8_lossy(&script);
    context.out.answer("script", script.trim_end());
    Ok(())
}
