use onus_store::Filter;

use crate::context::Context;
use crate::listing::Listing;

use super::list::PageArgs;

/// List tasks that cannot proceed: blocked ones, and those waiting for other tasks
///
/// By priority, then age, each with what it waits for. `onus why ID` gives every obstacle, and what would help.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    page: PageArgs,
    /// Continue after the page that returned this cursor
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    let (mut engine, identity) = context.host.reader()?;
    let filter = Filter { waiting: true, ad_hoc: Some(false), ..Filter::default() };
    let (cursor, limit) = (args.cursor.as_deref(), args.page.limit);
    let mut listing = Listing::new(&context.out);
    let mut looked =
        engine.list_in_sheets(identity.as_ref(), &filter, cursor, limit, &mut |tasks| listing.sheet(tasks));
    if let Ok(looked) = &mut looked {
        // This list is not meant to be complete, so the ad-hoc tasks that it leaves out are not mentioned.
        looked.value.ad_hoc = 0;
    }
    listing.end(looked)
}
