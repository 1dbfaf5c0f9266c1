use onus_core::refusal::{Code, Refusal};
use onus_engine::Notice;
use onus_host::config::{self, Edited, IntakeChannel, KEYS, Key, Owner, Source, TABLES, user_file};
use serde_json::{Value, json};

use crate::context::Context;
use crate::output::{escape_line, path_line, path_text};
use crate::wrap::wrapped;

/// Show how onus is configured here, and where each value comes from
///
/// In order of precedence: flags, the environment, the repository's onus.toml, your own file, defaults. A repository may
/// be stricter than your own file, never looser.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Verb {
    /// List every key, its value and its source
    Show,
    /// Print one value
    Get {
        /// The key, such as lease.ttl or area.auth
        key: String,
    },
    /// Set a key in the repository's onus.toml, or in your own file
    ///
    /// Comments and order stay. The value is checked first; nothing is written that could not be read again.
    Set {
        /// The key, such as lease.ttl or area.auth.paths
        key: String,
        /// The value; for a list, its items
        #[arg(value_name = "VALUE", required = true)]
        values: Vec<String>,
        /// In your own file instead of the repository's
        #[arg(long)]
        user: bool,
    },
    /// Remove a key from the repository's onus.toml, or from your own file
    Unset {
        /// The key, such as lease.ttl or area.auth
        key: String,
        /// From your own file instead of the repository's
        #[arg(long)]
        user: bool,
    },
    /// List the files that are read
    Files,
}

pub(crate) fn run(context: &Context, verb: Option<Verb>) -> super::Result {
    match verb {
        None | Some(Verb::Show) => show(context),
        Some(Verb::Get { key }) => get(context, &key),
        Some(Verb::Set { key, values, user }) => {
            context.refuse_agents("change the configuration")?;
            let edited = config::set(&context.host, owner(user), &key, &values)?;
            edit(context, &key, &edited)
        }
        Some(Verb::Unset { key, user }) => {
            context.refuse_agents("change the configuration")?;
            let edited = config::unset(&context.host, owner(user), &key)?;
            edit(context, &key, &edited)
        }
        Some(Verb::Files) => files(context),
    }
}

fn owner(user: bool) -> Owner {
    if user { Owner::User } else { Owner::Repository }
}

/// A value for programs: a list is a list.
fn structured(key: &Key, value: &str) -> Value {
    key.items(value).map_or_else(|| json!(value), |items| json!(items))
}

/// A value for people.
fn spoken(key: &Key, value: &str) -> String {
    match key.items(value) {
        Some(items) if items.is_empty() => "(none)".to_owned(),
        Some(items) => escape_line(&items.join(", ")),
        None => escape_line(value),
    }
}

fn show(context: &Context) -> super::Result {
    let out = &context.out;
    let (tables, file) = context.host.config.tables();
    let source = file.map(path_text);
    if out.json {
        let keys = KEYS.iter().map(|key| key_document(context, key));
        let of_table = |table: &str, name: &str, value: Value| {
            let about = TABLES.iter().find(|known| known.name == table).map(|known| known.about);
            json!({ "key": format!("{table}.{name}"), "value": value, "source": source, "env": null, "about": about })
        };
        let areas = tables
            .areas
            .iter()
            .map(|(name, area)| of_table("area", name.as_str(), json!({ "paths": area.paths })));
        let channels = tables
            .intake
            .iter()
            .map(|(name, channel)| of_table("intake", name.as_str(), channel_document(channel)));
        let gates =
            tables.gates.iter().map(|gate| of_table("gate", gate.key.as_str(), super::gate::document(gate)));
        let values: Vec<Value> = keys.chain(areas).chain(channels).chain(gates).collect();
        let forms: Vec<_> =
            TABLES.iter().map(|table| json!({ "table": table.form, "about": table.about })).collect();
        out.document(json!({ "config": values, "tables": forms }), &[]);
        return Ok(());
    }
    for key in KEYS {
        let (value, source) = match context.host.config.shown(key.name) {
            Some((value, source)) => (spoken(key, &value), source.clone()),
            None => ("(not set)".to_owned(), Source::Default),
        };
        let mut said = Vec::new();
        if source != Source::Default {
            said.push(format!("from {source}"));
        }
        for (value, source) in context.host.config.looser(key.name) {
            said.push(format!("{} in {source} is looser, so it is ignored", spoken(key, value)));
        }
        said.push(key.about.to_owned());
        entry(context, key.name, &value, &said);
    }
    let from: Vec<String> = source.iter().map(|file| format!("from {file}")).collect();
    for (name, area) in &tables.areas {
        entry(context, &format!("area.{name}.paths"), &escape_line(&area.paths.join(", ")), &from);
    }
    for (name, channel) in &tables.intake {
        for (key, value) in channel_fields(channel) {
            entry(context, &escape_line(&format!("intake.{name}.{key}")), &escape_line(&value), &from);
        }
    }
    for gate in &tables.gates {
        entry(context, &format!("gate.{}", gate.key), &super::gate::in_short(gate), &from);
    }
    Ok(())
}

/// The width of the screen if it is unknown.
const WIDTH: usize = 80;

/// Prints a key and its value, with remarks below. They are mostly prose, so they are wrapped even in a pipe.
fn entry(context: &Context, name: &str, value: &str, said: &[String]) {
    let out = &context.out;
    let columns = out.width.unwrap_or(WIDTH);
    out.line(&wrapped(&format!("{name} = {value}"), columns));
    for text in said {
        out.line(&out.dim(&wrapped(&format!("    {}", escape_line(text)), columns)));
    }
}

fn key_document(context: &Context, key: &Key) -> Value {
    let (value, source) = match context.host.config.shown(key.name) {
        Some((value, source)) => (Some(structured(key, &value)), Some(source.to_string())),
        None => (None, None),
    };
    let mut shown = json!({
        "key": key.name, "value": value, "source": source, "env": key.env, "about": key.about,
    });
    let looser = context.host.config.looser(key.name).iter();
    let looser: Vec<_> = looser
        .map(|(value, source)| json!({ "value": structured(key, value), "source": source.to_string() }))
        .collect();
    if !looser.is_empty() {
        shown["looser"] = json!(looser);
    }
    shown
}

/// The fields of a channel's table.
fn channel_fields(channel: &IntakeChannel) -> Vec<(&'static str, String)> {
    let paths = channel.paths.iter().flat_map(|paths| {
        [
            ("reference", Some(&paths.reference)),
            ("title", Some(&paths.title)),
            ("body", paths.body.as_ref()),
            ("link", paths.link.as_ref()),
            ("author", paths.author.as_ref()),
            ("labels", paths.labels.as_ref()),
            ("type", paths.kind.as_ref()),
            ("priority", paths.priority.as_ref()),
        ]
    });
    let paths = paths.filter_map(|(name, path)| Some((name, path?.to_string())));
    std::iter::once(("trust", channel.trust.to_string())).chain(paths).collect()
}

fn channel_document(channel: &IntakeChannel) -> Value {
    let fields = channel_fields(channel).into_iter().map(|(name, value)| match name {
        "trust" => (name.to_owned(), json!(channel.trust)),
        _ => (name.to_owned(), json!(value)),
    });
    Value::Object(fields.collect())
}

fn get(context: &Context, name: &str) -> super::Result {
    let out = &context.out;
    let (value, source, prose) = if let Some(rest) = name.strip_prefix("area.") {
        let (area, is_list) = match rest.strip_suffix(".paths") {
            Some(area) => (area, true),
            None => (rest, false),
        };
        let (_, paths) = context.host.config.area(area)?;
        let source = context.host.config.tables().1.map(path_text).unwrap_or_default();
        let value = if is_list { json!(paths) } else { json!({ "paths": paths }) };
        (value, source, paths.iter().map(|path| escape_line(path)).collect::<Vec<_>>().join("\n"))
    } else {
        let key = config::key(name)?;
        let Some((value, source)) = context.host.config.shown(name) else {
            return Err(Refusal::new(Code::NotFound, format!("{name} is not set and has no default")));
        };
        let prose = match key.items(&value) {
            Some(items) => items.iter().map(|item| escape_line(item)).collect::<Vec<_>>().join("\n"),
            None => escape_line(&value),
        };
        (structured(key, &value), source.to_string(), prose)
    };
    out.document_or(json!({ "key": name, "value": value, "source": source }), &[], || out.line(&prose));
    Ok(())
}

/// Prints the result of an edit. The configuration is read again, because the value that was set is not always the one
/// that counts.
fn edit(context: &Context, name: &str, edited: &Edited) -> super::Result {
    let file = path_text(&edited.file);
    let now = context.host.reload()?;
    let counts = Key::named(name).and_then(|_| now.config.shown(name));
    let notices: Vec<Notice> = match counts {
        Some((value, source)) if !source.is_of(&edited.file) && edited.value.is_some() => {
            vec![Notice::info(format!("{name} is still {}: from {source}", escape_line(&value)))]
        }
        _ => Vec::new(),
    };
    let document = json!({ "key": name, "value": edited.value, "file": file, "created": edited.created });
    context.out.document_or(document, &notices, || {
        let said = match &edited.value {
            Some(value) => {
                let value = match value {
                    Value::Array(items) => {
                        items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
                    }
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                format!("{name} = {} in {file}", escape_line(&value))
            }
            None => format!("{name} is no longer set in {file}"),
        };
        context.out.line(&escape_line(&said));
    });
    Ok(())
}

fn files(context: &Context) -> super::Result {
    let shared = context.host.place.as_ref().map(|place| place.root.join("onus.toml"));
    let user = user_file();
    let value =
        json!({ "repository": shared.as_deref().map(path_text), "user": user.as_deref().map(path_text) });
    context.out.document_or(value, &[], || {
        for (name, file) in [("repository", shared), ("user", user)] {
            let text = match &file {
                Some(file) if file.exists() => path_line(file),
                Some(file) => format!("{} (no such file)", path_line(file)),
                None => "(none)".to_owned(),
            };
            context.out.line(&format!("{name:<11} {text}"));
        }
    });
    Ok(())
}
