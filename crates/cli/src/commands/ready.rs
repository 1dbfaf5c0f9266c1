use crate::context::Context;

use super::list::PageArgs;

/// What you could claim now, the best first
///
/// Open tasks of your tier that are not kept for another, then tasks whose agent's lease lapsed. A person's are never
/// among them.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    page: PageArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (mut engine, identity) = context.reader()?;
    let looked = engine.ready(identity.as_ref(), args.page.limit)?;
    super::list::print(context, &looked);
    Ok(())
}
