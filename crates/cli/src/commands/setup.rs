use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use onus_agents::setup::{
    AGENTS, ANY, Agent, Difference, Distrust, Done, Found, Level, Plan, SetupEnv, State, agent, apply, diff,
    plan_removal, plan_setup,
};
use onus_core::refusal::{Code, Refusal, Step};
use onus_engine::Notice;
use onus_store::Access;
use serde_json::{Value, json};

use crate::context::Context;
use crate::output::{escape, escape_line, note, path_text};
use onus_host::config::state_folder;
use onus_host::{StoreAt, env};

/// Set up coding agents to work with onus: hooks, MCP server, instructions
///
/// Without a name it sets up the agents it finds here: by their program, or by their folder in the home directory or
/// the repository. It merges into existing configuration and never overwrites it; running it again changes nothing;
/// --remove restores everything. An onus entry that differs from what setup writes is corrected and reported. If a
/// file cannot be parsed, its line is reported and nothing is written at all.
///
/// Exits with 0 if all is well; with --check, 6 if something is missing or changed.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The agents; default: those found here
    #[arg(value_name = "AGENT", value_parser = PossibleValuesParser::new(AGENTS.iter().map(|agent| agent.name)))]
    agents: Vec<String>,
    /// Report what is set up, missing or changed; write nothing
    #[arg(long, conflicts_with_all = ["remove", "print", "list", "allow_store"])]
    check: bool,
    /// Remove everything onus set up; agents may not
    #[arg(long, conflicts_with_all = ["list", "allow_store"])]
    remove: bool,
    /// Show what would be written; write nothing
    #[arg(long, conflicts_with = "list")]
    print: bool,
    /// List the known agents, and which are found and set up
    #[arg(long)]
    list: bool,
    /// Use your own configuration, for all repositories, instead of this repository's
    #[arg(long, conflicts_with = "allow_store")]
    user: bool,
    /// Also let the agents' sandboxes write to the store's folder
    #[arg(long)]
    allow_store: bool,
}

pub(crate) fn run(context: &Context, args: Args) -> Result<u8, Refusal> {
    let level = if args.user { Level::User } else { Level::Project };
    if level == Level::Project && !args.list && !args.print && !args.remove {
        // Agents that are set up without a store would have nothing to ask.
        drop(context.host.engine(Access::Read)?);
    }
    if args.allow_store && matches!(context.host.store_at(), Ok(StoreAt::Server { .. })) {
        return Err(Refusal::usage("--allow-store is for a store in a file, and this one is on a server")
            .next(Step::plain(
                "let the sandbox reach the server, or let the agent use the MCP server outside the sandbox",
            )));
    }
    if args.remove && !args.print {
        context.refuse_agents("remove the hooks of agents")?;
    }
    let setup_env = setup_env(context, level)?;
    if args.list {
        return list(context, &setup_env);
    }
    let named: Vec<&'static Agent> = AGENTS
        .iter()
        .filter(|known| {
            args.agents.iter().filter_map(|name| agent(name)).any(|named| named.name == known.name)
        })
        .collect();
    if args.check {
        return check(context, &setup_env, named);
    }
    let agents = match (named.is_empty(), args.remove) {
        (false, _) => named,
        (true, true) => those(&setup_env, Agent::is_there)?,
        (true, false) => found_here(context, &setup_env, false)?,
    };
    let plan = if args.remove {
        plan_removal(&setup_env, &agents)?
    } else {
        plan_setup(&setup_env, &agents, args.allow_store)?
    };
    let done =
        if args.print { plan.changes.iter().map(Done::of).collect() } else { apply(&setup_env, &plan)? };
    let action = if args.remove { "remove" } else { "setup" };
    let guard =
        context.host.place.as_ref().filter(|place| level == Level::Project && place.git_dir.is_some());
    let guard = guard.map(super::guard::is_installed);
    if context.out.json {
        let mut report = document(&setup_env, action, args.print, &agents, &plan, &done);
        report["guard"] = json!(guard);
        context.out.document(report, &[]);
    } else {
        tell(context, &setup_env, &args, &agents, &plan, &done);
        if guard == Some(false) && !args.remove && !args.print {
            context.out.line("commits are not checked: onus guard install   # adds git hooks");
        }
    }
    Ok(0)
}

fn setup_env(context: &Context, level: Level) -> Result<SetupEnv<'static>, Refusal> {
    let root = context.host.place.as_ref().map_or(&context.host.folder, |place| &place.root).clone();
    let home = env("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let folder_of = |store: &Path| store.parent().map(Path::to_owned);
    let store = match context.host.store_at() {
        Ok(StoreAt::File(path)) => folder_of(&path),
        Ok(StoreAt::Server { .. }) | Err(_) => None,
    };
    let receipts = match level {
        Level::Project => store
            .clone()
            .or_else(|| folder_of(&context.host.place.as_ref()?.store))
            .unwrap_or_else(|| root.join(".onus"))
            .join("setup"),
        Level::User => state_folder()
            .ok_or_else(|| Refusal::usage("HOME is not set, so there is no user configuration"))?
            .join("setup"),
    };
    Ok(SetupEnv { level, root, home, store, receipts, env: &env })
}

/// Notices about agents that are set up here but would not be guarded in a worktree, because their configuration is not
/// committed or they do not trust that folder.
pub(crate) fn unguarded(context: &Context, worktree: &Path) -> Vec<Notice> {
    let (Ok(here), Ok(for_user)) = (setup_env(context, Level::Project), setup_env(context, Level::User))
    else {
        return Vec::new();
    };
    let Ok(there) = setup_env(context, Level::Project) else { return Vec::new() };
    let there = SetupEnv { root: worktree.to_owned(), ..there };
    let is_whole = |agent: &Agent, setup_env: &SetupEnv<'_>| {
        agent
            .found(setup_env)
            .is_ok_and(|parts| !parts.is_empty() && parts.iter().all(|part| part.state == State::Present))
    };
    let place = escape_line(&path_text(worktree));
    let mut notices = Vec::new();
    for agent in AGENTS.iter().filter(|agent| is_whole(agent, &here) && !is_whole(agent, &for_user)) {
        if !is_whole(agent, &there) {
            notices.push(
                Notice::info(format!(
                    "{} is not guarded in {place}: its settings are not committed",
                    agent.title
                ))
                .next(Step::plain(format!("onus -C {place} setup {}", agent.name))),
            );
        } else if let Ok(Some(distrust)) = agent.distrust(&there) {
            notices.push(
                Notice::info(format!("{} is not guarded in {place}: {}", agent.title, distrust.why))
                    .next(Step::plain(distrust.next)),
            );
        }
    }
    notices
}

/// The onus entries in agents' configuration, both the repository's and the user's own, that differ from what `setup`
/// writes, and how to repair them.
pub(crate) fn differing(context: &Context) -> Result<Vec<(String, Step)>, Refusal> {
    let mut differing = Vec::new();
    for level in [Level::Project, Level::User] {
        let Ok(setup_env) = setup_env(context, level) else { continue };
        for agent in those(&setup_env, |_, _| Ok(true))? {
            // `setup --check` says why a file cannot be read.
            let Ok(found) = agent.found(&setup_env) else { continue };
            let is_set_up = agent.is_set_up(&setup_env).unwrap_or(false);
            for found in found {
                if is_set_up && found.state == State::Missing {
                    let what = format!("{}: {} missing", shown(&setup_env, &found.path), found.part);
                    differing.push((what, repair(&setup_env, &[agent.name])));
                }
                for difference in &found.differences {
                    let what = format!("{}: {difference}", shown(&setup_env, &found.path));
                    differing.push((what, repair(&setup_env, &[agent.name])));
                }
            }
            if let Ok(Some(distrust)) = agent.distrust(&setup_env) {
                let what = format!("{}: {}", agent.title, distrust.why);
                differing.push((what, Step::plain(distrust.next)));
            }
        }
    }
    Ok(differing)
}

fn repair(setup_env: &SetupEnv<'_>, agents: &[&str]) -> Step {
    let agents = agents.iter().map(|agent| (*agent).to_owned()).collect();
    Step::SetUp { agents, for_user: setup_env.level == Level::User }
}

/// The agents for which a condition holds. AGENTS.md counts as an agent only if Codex, which also reads it, is not one of
/// them.
fn those(
    setup_env: &SetupEnv<'_>,
    holds: impl Fn(&Agent, &SetupEnv<'_>) -> Result<bool, Refusal>,
) -> Result<Vec<&'static Agent>, Refusal> {
    let mut found: Vec<&'static Agent> = Vec::new();
    for agent in AGENTS {
        let other = agent.name == ANY.name;
        let told =
            other && (setup_env.level == Level::User || found.iter().any(|agent| agent.name == "codex"));
        if !told && holds(agent, setup_env)? {
            found.push(agent);
        }
    }
    Ok(found)
}

/// The agents used here, as far as onus can see.
fn found_here(
    context: &Context,
    setup_env: &SetupEnv<'_>,
    only_checks: bool,
) -> Result<Vec<&'static Agent>, Refusal> {
    let found = those(setup_env, |agent, setup_env| Ok(agent.detected(setup_env).is_some()))?;
    if !found.is_empty() {
        return Ok(found);
    }
    if setup_env.level == Level::User {
        let names: Vec<&str> =
            AGENTS.iter().map(|agent| agent.name).filter(|name| *name != ANY.name).collect();
        return Err(Refusal::usage("found no agent on this machine")
            .next(Step::plain(format!("name one: {}", names.join(", ")))));
    }
    if !context.out.json {
        note(match only_checks {
            true => "found no agent here, so only AGENTS.md is checked, which many agents read",
            false => "found no agent here, so this sets up AGENTS.md, which many agents read",
        });
    }
    Ok(vec![ANY])
}

/// A path for display: relative to the repository's root if inside it.
fn shown(setup_env: &SetupEnv<'_>, path: &Path) -> String {
    let short = match setup_env.level {
        Level::Project => path.strip_prefix(&setup_env.root).unwrap_or(path),
        Level::User => path,
    };
    escape_line(&path_text(short))
}

fn document(
    setup_env: &SetupEnv<'_>,
    action: &str,
    print: bool,
    agents: &[&'static Agent],
    plan: &Plan,
    done: &[Done],
) -> Value {
    let files = |agent: &Agent| -> Vec<Value> {
        let mine = plan.changes.iter().zip(done).filter(|(change, _)| change.agents.contains(&agent.name));
        mine.map(|(change, done)| {
            let mut file = json!({ "path": path_text(&change.path), "done": done });
            if !change.differences.is_empty() {
                file["differed"] = texts(&change.differences);
            }
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
                "detected": agent.detected(setup_env),
                "files": files(agent),
            });
            if action == "setup" {
                entry["notes"] = json!(agent.notes());
                entry["sandbox"] = sandbox(setup_env, agent);
            }
            entry
        })
        .collect();
    json!({
        "level": setup_env.level,
        "action": action,
        "dry_run": print,
        "onus_on_path": setup_env.program("onus").is_some(),
        "agents": agents,
    })
}

fn texts(differences: &[Difference]) -> Value {
    differences.iter().map(Difference::to_string).collect()
}

fn sandbox(setup_env: &SetupEnv<'_>, agent: &Agent) -> Value {
    let mut value = json!({ "says": agent.sandbox(), "allowed": agent.is_allowed(setup_env) });
    if let Some(way) = agent.way(setup_env) {
        value["file"] = json!(path_text(&way.file));
        value["lines"] = json!(way.lines);
    }
    value
}

fn tell(
    context: &Context,
    setup_env: &SetupEnv<'_>,
    args: &Args,
    agents: &[&'static Agent],
    plan: &Plan,
    done: &[Done],
) {
    let out = &context.out;
    if agents.is_empty() {
        out.line("no agent is set up here");
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
                (_, Done::Unchanged) if change.stays => "stays: another agent still reads it",
                (_, done) => done.as_str(),
            };
            out.line(&format!("  {}: {would}", shown(setup_env, &change.path)));
            for difference in &change.differences {
                out.line(&format!("    corrected: {}", escape_line(&difference.to_string())));
            }
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
        tell_of_sandbox(context, setup_env, agent);
    }
    if !args.remove && !args.print && setup_env.program("onus").is_none() {
        note("onus is not on PATH: until it is, the hooks do nothing and the MCP server does not start");
    }
}

fn tell_of_sandbox(context: &Context, setup_env: &SetupEnv<'_>, agent: &Agent) {
    if agent.is_allowed(setup_env) {
        context.out.line("  sandbox: it can write to the store's folder");
        return;
    }
    context.out.line(&format!("  sandbox: {}", agent.sandbox()));
    if let Some(way) = agent.way(setup_env) {
        let file = shown(setup_env, &way.file);
        context.out.line(&format!(
            "  to let its shell write to the store too: onus setup {} --allow-store, or in {file}:",
            agent.name
        ));
        for line in &way.lines {
            context.out.line(&format!("    {}", escape_line(line)));
        }
    }
}

fn check(context: &Context, setup_env: &SetupEnv<'_>, named: Vec<&'static Agent>) -> Result<u8, Refusal> {
    let agents = match named.is_empty() {
        false => named,
        true => match those(setup_env, Agent::is_set_up)? {
            set_up if set_up.is_empty() => found_here(context, setup_env, true)?,
            set_up => set_up,
        },
    };
    let on_path = setup_env.program("onus").is_some();
    let mut entries = Vec::new();
    let mut lacking: Vec<&str> = Vec::new();
    let mut is_begun = false;
    let mut untrusted: Vec<(&str, Distrust)> = Vec::new();
    for agent in &agents {
        let found = agent.found(setup_env)?;
        let distrust = agent.distrust(setup_env)?;
        let set_up = found.iter().all(|found| found.state == State::Present);
        if !set_up {
            lacking.push(agent.name);
            is_begun |= found.iter().any(|found| found.state != State::Missing);
        }
        if context.out.json {
            let part = |found: &Found| {
                let mut part = json!({
                    "path": path_text(&found.path), "part": found.part, "state": found.state,
                });
                if !found.differences.is_empty() {
                    part["differences"] = texts(&found.differences);
                }
                part
            };
            let parts: Vec<Value> = found.iter().map(part).collect();
            entries.push(json!({
                "name": agent.name,
                "title": agent.title,
                "detected": agent.detected(setup_env),
                "set_up": set_up,
                "parts": parts,
                "untrusted": distrust.as_ref().map(|distrust| distrust.why.as_str()),
                "sandbox": sandbox(setup_env, agent),
            }));
            untrusted.extend(distrust.map(|distrust| (agent.name, distrust)));
            continue;
        }
        context.out.line(&format!("{} ({})", context.out.bold(agent.title), agent.name));
        for found in &found {
            let mark = match found.state {
                State::Present => context.out.good("ok  "),
                _ => context.out.bad("BAD "),
            };
            let path = shown(setup_env, &found.path);
            context.out.line(&format!("  {mark} {:<12} {path}: {}", found.part, found.state));
            for difference in &found.differences {
                context.out.line(&format!("       {}", escape_line(&difference.to_string())));
            }
        }
        if let Some(distrust) = distrust {
            let (mark, file) = (context.out.bad("BAD "), shown(setup_env, &distrust.file));
            context.out.line(&format!("  {mark} {:<12} {file}: {}", "trust", distrust.why));
            untrusted.push((agent.name, distrust));
        }
    }
    let ok = lacking.is_empty() && untrusted.is_empty() && on_path;
    let refusal = (!ok).then(|| not_well(setup_env, (lacking.as_slice(), is_begun), &untrusted, on_path));
    if context.out.json {
        let report = json!({
            "level": setup_env.level,
            "action": "check",
            "ok": ok,
            "onus_on_path": on_path,
            "agents": entries,
        });
        return Ok(context.out.report(report, refusal.as_ref()));
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    context.out.line("everything is set up, and onus is on PATH");
    Ok(0)
}

fn not_well(
    setup_env: &SetupEnv<'_>,
    (lacking, is_begun): (&[&str], bool),
    untrusted: &[(&str, Distrust)],
    on_path: bool,
) -> Refusal {
    let mut troubles = Vec::new();
    if !lacking.is_empty() {
        let what = if is_begun { "not set up correctly" } else { "not set up" };
        troubles.push(format!("{what}: {}", lacking.join(", ")));
    }
    if !untrusted.is_empty() {
        let names: Vec<&str> = untrusted.iter().map(|(agent, _)| *agent).collect();
        troubles.push(format!("hooks are not trusted, so edits are not guarded: {}", names.join(", ")));
    }
    if !on_path {
        troubles.push("onus is not on PATH".to_owned());
    }
    let mut refusal = Refusal::new(Code::Unmet, troubles.join("; "));
    if !lacking.is_empty() {
        refusal = refusal.next(repair(setup_env, lacking));
    }
    for (_, distrust) in untrusted {
        refusal = refusal.next(Step::plain(distrust.next));
    }
    if !on_path {
        refusal = refusal.next(Step::plain("add the folder that contains onus to the agents' PATH"));
    }
    refusal
}

fn list(context: &Context, setup_env: &SetupEnv<'_>) -> Result<u8, Refusal> {
    let mut entries = Vec::new();
    for agent in AGENTS {
        if agent.name == ANY.name && setup_env.level == Level::User {
            continue;
        }
        let detected = agent.detected(setup_env);
        // One broken file must not keep the others from being listed.
        let (set_up, trouble) = match agent.found(setup_env) {
            Ok(found) => {
                let whole = found.iter().all(|found| found.state == State::Present);
                let set_up = match (whole, agent.is_set_up(setup_env)?) {
                    (true, _) => "yes",
                    (false, true) => "partly",
                    (false, false) => "no",
                };
                (set_up, None)
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
        let report = json!({ "level": setup_env.level, "action": "list", "agents": entries });
        context.out.document(report, &[]);
    }
    Ok(0)
}
