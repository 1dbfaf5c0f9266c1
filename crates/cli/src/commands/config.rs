use onus_core::refusal::{Code, Refusal};
use serde_json::json;

use crate::config::{KEYS, Source, user_file};
use crate::context::{Context, env};
use crate::output::{escape_line, path_line, path_text};

/// How onus is configured here, and where each value comes from
///
/// Flags come before the environment, then the repository's onus.toml, then the user's file, then defaults.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Every key, its value and its source
    Show,
    /// One value
    Get {
        /// The key, such as lease.ttl
        key: String,
    },
    /// The files that are read
    Files,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    match args.verb {
        None | Some(Verb::Show) => show(context),
        Some(Verb::Get { key }) => get(context, &key),
        Some(Verb::Files) => files(context),
    }
}

fn show(context: &Context) -> super::Result {
    let out = &context.out;
    if out.json {
        let values: Vec<_> = KEYS
            .iter()
            .map(|key| {
                let (value, source) = match context.config.shown(key.name) {
                    Some((value, source)) => (Some(value), Some(source.to_string())),
                    None => (None, None),
                };
                json!({ "key": key.name, "value": value, "source": source, "env": key.env, "about": key.about })
            })
            .collect();
        out.document(json!({ "config": values }), &[]);
        return Ok(());
    }
    for key in KEYS {
        let (value, source) = match context.config.shown(key.name) {
            Some((value, source)) => (escape_line(&value), source.clone()),
            None => ("-".to_owned(), Source::Default),
        };
        out.line(&format!(
            "{:<27} {value:<10} {}",
            key.name,
            out.dim(&format!("from {source}; {}", key.about))
        ));
    }
    Ok(())
}

fn get(context: &Context, name: &str) -> super::Result {
    if !KEYS.iter().any(|key| key.name == name) {
        let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        return Err(Refusal::usage(format!("there is no key '{name}'; there are {}", known.join(", "))));
    }
    match context.config.shown(name) {
        Some((value, source)) if context.out.json => {
            context.out.document(json!({ "key": name, "value": value, "source": source.to_string() }), &[]);
        }
        Some((value, _)) => context.out.line(&value),
        None => return Err(Refusal::new(Code::NotFound, format!("{name} is not set, and has no default"))),
    }
    Ok(())
}

fn files(context: &Context) -> super::Result {
    let shared = context.place.as_ref().map(|place| place.root.join("onus.toml"));
    let user = user_file(&env);
    if context.out.json {
        context.out.document(
            json!({ "repository": shared.as_deref().map(path_text), "user": user.as_deref().map(path_text) }),
            &[],
        );
        return Ok(());
    }
    for (name, file) in [("repository", shared), ("user", user)] {
        let text = match &file {
            Some(file) if file.exists() => path_line(file),
            Some(file) => format!("{} (not there)", path_line(file)),
            None => "(none)".to_owned(),
        };
        context.out.line(&format!("{name:<11} {text}"));
    }
    Ok(())
}
