use onus_core::refusal::Refusal;

use crate::context::Context;

use super::list::PageArgs;

/// Find tasks by words in their title, body and notes
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Every word must occur somewhere in the task; beginnings of words count
    #[arg(required = true)]
    words: Vec<String>,
    #[command(flatten)]
    page: PageArgs,
}

/// The most words that are looked for.
const MAX_WORDS: usize = 20;

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let words: Vec<String> = args
        .words
        .iter()
        .flat_map(|text| text.split_whitespace())
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .map(str::to_owned)
        .collect();
    if words.is_empty() || words.len() > MAX_WORDS {
        return Err(Refusal::usage(format!("name 1 to {MAX_WORDS} words, with letters or digits in each")));
    }
    let (mut engine, identity) = context.reader()?;
    let looked = engine.search(identity.as_ref(), &words, args.page.limit)?;
    super::list::print(context, &looked);
    Ok(())
}
