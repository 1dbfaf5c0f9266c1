use crate::args::Target;
use crate::context::{Context, target};
use crate::render;

/// Show a task, its holder and its notes
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (mut engine, identity) = context.reader()?;
    let looked = engine.show(identity.as_ref(), target(args.target.task)?.as_ref())?;
    if context.out.json {
        context.out.document(&looked.value, &looked.notices);
    } else {
        context.out.line(&render::card(&context.out, &looked.value));
        context.out.notices(&looked.notices);
    }
    Ok(())
}
