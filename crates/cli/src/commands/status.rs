use crate::context::Context;
use crate::output::escape_line;

/// Who holds what, what lapsed, and how many tasks stand where
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(context: &Context, _args: Args) -> super::Result {
    let (mut engine, identity) = context.reader()?;
    let looked = engine.status(identity.as_ref())?;
    let (out, status) = (&context.out, &looked.value);
    if out.json {
        out.document(status, &looked.notices);
        return Ok(());
    }
    let counts: Vec<String> = status
        .counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    out.line(&if counts.is_empty() {
        "no tasks yet: onus add 'what is to be done'".to_owned()
    } else {
        counts.join(", ")
    });
    if let Some(identity) = &identity {
        let yours = if status.yours.is_empty() { "nothing".to_owned() } else { status.yours.join(", ") };
        out.line(&format!("you are {} and hold {yours}", identity.actor));
    }
    let lists = [
        ("held", &status.held),
        ("lapsed", &status.lapsed),
        ("stale", &status.stale),
        ("stalled", &status.stalled),
    ];
    for (title, list) in lists {
        if list.is_empty() {
            continue;
        }
        out.line("");
        out.line(&out.bold(title));
        for held in list {
            out.line(&format!("  {} {}", held.id, escape_line(&held.title)));
            out.line(&format!("    {}", escape_line(&held.message)));
            if let Some(next) = &held.next {
                out.line(&out.dim(&format!("    next: {next}")));
            }
        }
    }
    out.notices(&looked.notices);
    Ok(())
}
