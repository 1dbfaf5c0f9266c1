use onus_core::refusal::Refusal;

use crate::context::Context;
use crate::listing::Listing;

use super::list::PageArgs;

/// Find tasks by words in their title, body and notes
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Words that must all occur in the task; the beginning of a word is enough
    #[arg(required = true)]
    words: Vec<String>,
    /// Include ad-hoc tasks
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    page: PageArgs,
}

/// The most words in one search.
const MAX_WORDS: usize = 20;

pub(crate) fn run(context: &Context, args: Args) -> Result<u8, Refusal> {
    let words: Vec<String> = args
        .words
        .iter()
        .flat_map(|text| text.split_whitespace())
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .map(str::to_owned)
        .collect();
    if words.is_empty() || words.len() > MAX_WORDS {
        return Err(Refusal::usage(format!("give 1 to {MAX_WORDS} words, each with letters or digits")));
    }
    let (mut engine, identity) = context.host.reader()?;
    let mut listing = Listing::new(&context.out);
    let (ad_hoc, limit) = (args.all, args.page.limit);
    let looked = engine.search(identity.as_ref(), &words, ad_hoc, limit, &mut |tasks| listing.sheet(tasks));
    listing.end(looked)
}
