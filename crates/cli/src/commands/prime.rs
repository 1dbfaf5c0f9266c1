use onus_core::refusal::{Code, Refusal};
use serde_json::json;

use crate::context::Context;
use crate::output::{Output, escape};
use crate::{primer, wording};

/// Print what an agent needs to know: who it is, what it holds and what to do next
///
/// Short enough to print at the start of every conversation. It never fails: the text says what is wrong.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print the whole contract: every verb, exit code and rule
    #[arg(long)]
    full: bool,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let text = match context.host.reader() {
        Ok((mut engine, identity)) => primer::primer(&mut engine, identity.as_ref(), args.full)
            .unwrap_or_else(|refusal| primer::without_store(&refusal)),
        // A caller that cannot be identified is told how to identify itself.
        Err(refusal) if refusal.code == Code::Identity => identity_text(&refusal),
        Err(refusal) => primer::without_store(&refusal),
    };
    print(&context.out, &text);
    Ok(())
}

/// Like [`run`], for when not even the configuration can be read.
pub(crate) fn run_without_context(json: bool, refusal: &Refusal) -> u8 {
    print(&Output::new(json, "never"), &primer::without_store(refusal));
    0
}

/// Agents read this, so hidden characters are made visible, in JSON too.
fn print(out: &Output, text: &str) {
    let text = escape(text);
    out.document_or(json!({ "primer": text }), &[], || out.line(text.trim_end()));
}

fn identity_text(refusal: &Refusal) -> String {
    let steps = refusal.next.iter().filter_map(wording::step);
    let next: Vec<String> = steps.map(|step| format!("- {step}")).collect();
    format!("onus: {}\n{}\n", refusal.message, next.join("\n"))
}
