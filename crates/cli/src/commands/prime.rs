use onus_core::refusal::{Code, Refusal};
use serde_json::json;

use crate::context::Context;
use crate::output::Output;
use crate::primer;

/// What an agent must know now: who it is, what it holds, how to go on
///
/// Short enough for every start of a conversation. It never fails: what is wrong stands in the text.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The whole contract: every verb, exit code and rule
    #[arg(long)]
    full: bool,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let text = match context.reader() {
        Ok((mut engine, identity)) => primer::primer(&mut engine, identity.as_ref(), args.full)
            .unwrap_or_else(|refusal| primer::without_store(&refusal)),
        // Who cannot be known is told how to be.
        Err(refusal) if refusal.code == Code::Identity => identity_text(&refusal),
        Err(refusal) => primer::without_store(&refusal),
    };
    print(&context.out, &text);
    Ok(())
}

/// The same where not even the configuration can be read.
pub(crate) fn run_without_context(json: bool, refusal: &Refusal) -> u8 {
    print(&Output::new(json, "never"), &primer::without_store(refusal));
    0
}

fn print(out: &Output, text: &str) {
    if out.json {
        out.document(json!({ "primer": text }), &[]);
    } else {
        out.line(text.trim_end());
    }
}

fn identity_text(refusal: &Refusal) -> String {
    let next: Vec<String> = refusal.next.iter().map(|step| format!("- {step}")).collect();
    format!("onus: {}\n{}\n", refusal.message, next.join("\n"))
}
