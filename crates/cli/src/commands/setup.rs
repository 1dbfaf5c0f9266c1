use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use onus_agents::setup::{
    AGENTS, ANY, Agent, Done, Ground, Level, Plan, State, agent, apply, diff, plan_removal, plan_setup,
};
use onus_core::refusal::{Code, Refusal};
use onus_store::Access;
use serde_json::{Value, json};

use crate::context::{Context, StoreAt, env};
use crate::output::{escape, escape_line, note, path_text};

/// Set up coding agents to work under onus: hooks, MCP server, instructions
///
/// Without a name it sets up the agents that it finds here: by their program, or by their folder in the home directory or
/// the repository. Configuration that is there is merged into, never overwritten; a second time changes nothing; --remove
/// puts everything back as it was. A file that is broken is refused with its line, and then nothing at all is written.
///
/// Exit 0 if all is well; with --check, 6 if something is missing.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The agents; without any, those that are found
    #[arg(value_name = "AGENT", value_parser = PossibleValuesParser::new(AGENTS.iter().map(|agent| agent.name)))]
    agents: Vec<String>,
    /// Say what is set up, missing or changed, and write nothing
    #[arg(long, conflicts_with_all = ["remove", "print", "list", "allow_store"])]
    check: bool,
    /// Take everything out again
    #[arg(long, conflicts_with_all = ["list", "allow_store"])]
    remove: bool,
    /// Show what would be written, and write nothing
    #[arg(long, conflicts_with = "list")]
    print: bool,
    /// List the known agents, which are found, and which are set up
    #[arg(long)]
    list: bool,
    /// In the user's own configuration, for all repositories, instead of this repository's
    #[arg(long, conflicts_with = "allow_store")]
    user: bool,
    /// Also let the agents' sandboxes write the store's folder
    #[arg(long)]
    allow_store: bool,
}

pub(crate) fn run(context: &Context, args: Args) -> Result<u8, Refusal> {
    let level = if args.user { Level::User } else { Level::Project };
    if level == Level::Project && !args.list && !args.print && !args.remove {
        // Agents that are set up without a store would find nothing to ask.
        drop(context.engine(Access::Read)?);
    }
    let root = context.place.as_ref().map_or(&context.folder, |place| &place.root).clone();
    let home = env("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let folder_of = |store: &Path| store.parent().map(Path::to_owned);
    let store = match context.store_at() {
        Ok(StoreAt::File(path)) => folder_of(&path),
        Ok(StoreAt::Server { .. }) if args.allow_store => {
            return Err(Refusal::usage("--allow-store is for a store in a file; this one is on a server")
                .next(
                    "let the sandbox reach the server, or set the agent up with `onus mcp` outside of it",
                ));
        }
        Ok(StoreAt::Server { .. }) | Err(_) => None,
    };
    let receipts = match level {
        Level::Project => store
            .clone()
            .or_else(|| folder_of(&context.place.as_ref()?.store))
            .unwrap_or_else(|| root.join(".onus"))
            .join("setup"),
        Level::User => state_folder(home.as_deref())?.join("setup"),
    };
    let ground = Ground { level, root, home, store, receipts, env: &env };
    if args.list {
        return list(context, &ground);
    }
    let named: Vec<&'static Agent> = AGENTS
        .iter()
        .filter(|known| {
            args.agents.iter().filter_map(|name| agent(name)).any(|named| named.name == known.name)
        })
        .collect();
    if args.check {
        return check(context, &ground, named);
    }
    let agents = match (named.is_empty(), args.remove) {
        (false, _) => named,
        (true, true) => those(&ground, Agent::is_there)?,
        (true, false) => found_here(context, &ground)?,
    };
    let plan = if args.remove {
        plan_removal(&ground, &agents)?
    } else {
        plan_setup(&ground, &agents, args.allow_store)?
    };
    let done = if args.print { plan.changes.iter().map(Done::of).collect() } else { apply(&ground, &plan)? };
    let action = if args.remove { "remove" } else { "setup" };
    if context.out.json {
        context.out.document(document(&ground, action, args.print, &agents, &plan, &done), &[]);
    } else {
        tell(context, &ground, &args, &agents, &plan, &done);
    }
    Ok(0)
}

/// The folder for what onus remembers of a user's set-up.
fn state_folder(home: Option<&Path>) -> Result<PathBuf, Refusal> {
    let set = env("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = set.or_else(|| Some(home?.join(".local").join("state")));
    match folder {
        Some(folder) => Ok(folder.join("onus")),
        None => Err(Refusal::usage("HOME is not set: there is no place for a user's configuration")),
    }
}

/// The agents of which something holds. AGENTS.md on its own counts where Codex, which reads it too, does not.
fn those(
    ground: &Ground<'_>,
    holds: impl Fn(&Agent, &Ground<'_>) -> Result<bool, Refusal>,
) -> Result<Vec<&'static Agent>, Refusal> {
    let mut found: Vec<&'static Agent> = Vec::new();
    for agent in AGENTS {
        let other = agent.name == ANY.name;
        let told = other && (ground.level == Level::User || found.iter().any(|agent| agent.name == "codex"));
        if !told && holds(agent, ground)? {
            found.push(agent);
        }
    }
    Ok(found)
}

/// The agents that are used here, as far as can be seen.
fn found_here(context: &Context, ground: &Ground<'_>) -> Result<Vec<&'static Agent>, Refusal> {
    let found = those(ground, |agent, ground| Ok(agent.detected(ground).is_some()))?;
    if !found.is_empty() {
        return Ok(found);
    }
    if ground.level == Level::User {
        let names: Vec<&str> =
            AGENTS.iter().map(|agent| agent.name).filter(|name| *name != ANY.name).collect();
        return Err(Refusal::usage("no agent was found on this machine")
            .next(format!("name one: {}", names.join(", "))));
    }
    if !context.out.json {
        note("no agent was found here: AGENTS.md is for any that reads it");
    }
    Ok(vec![ANY])
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Project => "project",
        Level::User => "user",
    }
}

/// A path as it is shown: below the repository's root without it.
fn shown(ground: &Ground<'_>, path: &Path) -> String {
    let short = match ground.level {
        Level::Project => path.strip_prefix(&ground.root).unwrap_or(path),
        Level::User => path,
    };
    escape_line(&path_text(short))
}

fn document(
    ground: &Ground<'_>,
    action: &str,
    print: bool,
    agents: &[&'static Agent],
    plan: &Plan,
    done: &[Done],
) -> Value {
    let files = |agent: &Agent| -> Vec<Value> {
        let mine = plan.changes.iter().zip(done).filter(|(change, _)| change.agents.contains(&agent.name));
        mine.map(|(change, done)| {
            let mut file = json!({ "path": path_text(&change.path), "done": done.as_str() });
            if print {
                let (before, after) = (change.before.as_deref(), change.after.as_deref());
                file["diff"] = json!(diff(before.unwrap_or_default(), after.unwrap_or_default()).join("\n"));
            }
            file
        })
        .collect()
    };
    let agents: Vec<Value> = agents
        .iter()
        .map(|agent| {
            let mut entry = json!({
                "name": agent.name,
                "title": agent.title,
                "detected": agent.detected(ground),
                "files": files(agent),
            });
            if action == "setup" {
                entry["notes"] = json!(agent.notes());
                entry["sandbox"] = sandbox(ground, agent);
            }
            entry
        })
        .collect();
    json!({
        "level": level_name(ground.level),
        "action": action,
        "dry_run": print,
        "onus_on_path": ground.program("onus").is_some(),
        "agents": agents,
    })
}

fn sandbox(ground: &Ground<'_>, agent: &Agent) -> Value {
    let mut value = json!({ "says": agent.sandbox(), "allowed": agent.is_allowed(ground) });
    if let Some(way) = agent.way(ground) {
        value["file"] = json!(path_text(&way.file));
        value["lines"] = json!(way.lines);
    }
    value
}

fn tell(
    context: &Context,
    ground: &Ground<'_>,
    args: &Args,
    agents: &[&'static Agent],
    plan: &Plan,
    done: &[Done],
) {
    let out = &context.out;
    if agents.is_empty() {
        out.line("nothing of onus is set up here");
        return;
    }
    for agent in agents {
        out.line(&format!("{} ({})", out.bold(agent.title), agent.name));
        let mut wrote = false;
        for (change, done) in plan.changes.iter().zip(done) {
            if !change.agents.contains(&agent.name) {
                continue;
            }
            wrote |= *done != Done::Unchanged;
            let would = match (args.print, done) {
                (true, Done::Created) => "would be created",
                (true, Done::Changed) => "would be changed",
                (true, Done::Restored) => "would be restored as it was",
                (true, Done::Removed) => "would be removed",
                (false, Done::Restored) => "restored as it was",
                (_, Done::Unchanged) if change.stays => "stays: another agent that is set up reads it",
                (_, done) => done.as_str(),
            };
            out.line(&format!("  {}: {would}", shown(ground, &change.path)));
            if args.print {
                let (before, after) = (change.before.as_deref(), change.after.as_deref());
                for line in diff(before.unwrap_or_default(), after.unwrap_or_default()) {
                    out.line(&format!("    {}", escape(&line)));
                }
            }
        }
        if args.remove || args.print || !wrote {
            continue;
        }
        for text in agent.notes() {
            out.line(&format!("  note: {text}"));
        }
        tell_of_sandbox(context, ground, agent);
    }
    if !args.remove && !args.print && ground.program("onus").is_none() {
        note("onus is not on PATH: until it is, the hooks pass in silence and the MCP server does not start");
    }
}

fn tell_of_sandbox(context: &Context, ground: &Ground<'_>, agent: &Agent) {
    if agent.is_allowed(ground) {
        context.out.line("  sandbox: the store's folder is writable in it");
        return;
    }
    context.out.line(&format!("  sandbox: {}", agent.sandbox()));
    if let Some(way) = agent.way(ground) {
        let file = shown(ground, &way.file);
        context.out.line(&format!(
            "  to let the shell write it too: onus setup {} --allow-store, or in {file}:",
            agent.name
        ));
        for line in &way.lines {
            context.out.line(&format!("    {}", escape_line(line)));
        }
    }
}

fn check(context: &Context, ground: &Ground<'_>, named: Vec<&'static Agent>) -> Result<u8, Refusal> {
    let agents = match named.is_empty() {
        false => named,
        true => match those(ground, Agent::is_set_up)? {
            set_up if set_up.is_empty() => found_here(context, ground)?,
            set_up => set_up,
        },
    };
    let on_path = ground.program("onus").is_some();
    let mut entries = Vec::new();
    let mut lacking: Vec<&str> = Vec::new();
    for agent in &agents {
        let found = agent.found(ground)?;
        let set_up = found.iter().all(|found| found.state == State::Present);
        if !set_up {
            lacking.push(agent.name);
        }
        if context.out.json {
            let part = |found: &onus_agents::setup::Found| json!({ "path": path_text(&found.path), "part": found.part, "state": found.state.as_str() });
            let parts: Vec<Value> = found.iter().map(part).collect();
            entries.push(json!({
                "name": agent.name,
                "title": agent.title,
                "detected": agent.detected(ground),
                "set_up": set_up,
                "parts": parts,
                "sandbox": sandbox(ground, agent),
            }));
            continue;
        }
        context.out.line(&format!("{} ({})", context.out.bold(agent.title), agent.name));
        for found in &found {
            let mark = match found.state {
                State::Present => context.out.good("ok  "),
                _ => context.out.bad("BAD "),
            };
            let path = shown(ground, &found.path);
            context.out.line(&format!("  {mark} {:<12} {path}: {}", found.part, found.state.as_str()));
        }
    }
    let ok = lacking.is_empty() && on_path;
    let refusal = (!ok).then(|| not_well(ground, &lacking, on_path));
    if context.out.json {
        let mut report = json!({
            "level": level_name(ground.level),
            "action": "check",
            "ok": ok,
            "onus_on_path": on_path,
            "agents": entries,
        });
        if let Some(refusal) = &refusal {
            report["error"] = json!(refusal);
        }
        context.out.document(report, &[]);
    } else if let Some(refusal) = &refusal {
        return Err(refusal.clone());
    } else {
        context.out.line("all is set up, and onus is on PATH");
    }
    Ok(refusal.map_or(0, |refusal| refusal.exit_code()))
}

fn not_well(ground: &Ground<'_>, lacking: &[&str], on_path: bool) -> Refusal {
    let mut troubles = Vec::new();
    if !lacking.is_empty() {
        troubles.push(format!("not set up as it should be: {}", lacking.join(", ")));
    }
    if !on_path {
        troubles.push("onus is not on PATH".to_owned());
    }
    let mut refusal = Refusal::new(Code::Unmet, troubles.join("; "));
    if !lacking.is_empty() {
        let user = if ground.level == Level::User { " --user" } else { "" };
        refusal = refusal.next(format!("onus setup {}{user}", lacking.join(" ")));
    }
    if !on_path {
        refusal = refusal.next("put the folder that onus lies in on the agents' PATH");
    }
    refusal
}

fn list(context: &Context, ground: &Ground<'_>) -> Result<u8, Refusal> {
    let mut entries = Vec::new();
    for agent in AGENTS {
        if agent.name == ANY.name && ground.level == Level::User {
            continue;
        }
        let detected = agent.detected(ground);
        // One broken file is no reason not to list the others.
        let (set_up, trouble) = match agent.found(ground) {
            Ok(found) => {
                let whole = found.iter().all(|found| found.state == State::Present);
                let part = agent.is_set_up(ground)?;
                (
                    if whole {
                        "yes"
                    } else if part {
                        "partly"
                    } else {
                        "no"
                    },
                    None,
                )
            }
            Err(refusal) => ("unknown", Some(refusal.message)),
        };
        if context.out.json {
            let mut entry =
                json!({ "name": agent.name, "title": agent.title, "detected": detected, "set_up": set_up });
            if let Some(trouble) = trouble {
                entry["trouble"] = json!(trouble);
            }
            entries.push(entry);
            continue;
        }
        let seen = detected.map_or("not found".to_owned(), |place| format!("found: {}", escape_line(&place)));
        context.out.line(&format!("{:<10} {:<12} set up: {set_up:<8} {seen}", agent.name, agent.title));
        if let Some(trouble) = trouble {
            context.out.line(&format!("           {}", escape_line(&trouble)));
        }
    }
    if context.out.json {
        let report = json!({ "level": level_name(ground.level), "action": "list", "agents": entries });
        context.out.document(report, &[]);
    }
    Ok(0)
}
