mod hook;

use std::path::PathBuf;

use clap::Subcommand;
use onus_core::command::{Command, Guard};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::scope::Touched;
use onus_engine::{Conversation, Identity, Notice, Request};
use onus_host::Checkout;
use onus_os::clock;
use onus_repo::Place;
use onus_repo::git_hooks::{self, Done, Folder, Found, Hook};
use onus_store::Access;
use serde_json::{Value, json};

use crate::context::Context;
use crate::output::{escape_line, path_line, path_text};

/// Check commits: git's hooks ask who has reserved what is committed
///
/// `install` adds hooks to git's own folder of hooks, which all worktrees share. Hooks that are there run as before, and
/// `uninstall` restores them byte for byte. If core.hooksPath sends git to another folder, nothing is written: `install`
/// prints the line to add there (exit 6). Agents are refused what another has reserved; people are warned (guard.people).
///
/// Without a command, it shows the status.
#[derive(Subcommand, Debug)]
pub(crate) enum Action {
    /// Add the hooks to this repository
    Install,
    /// Remove them, and restore what was there before; agents may not
    Uninstall,
    /// Show which hooks are installed, and have git prove that it reaches them
    Status,
    /// Ask whether you may change these files now; nothing is reserved
    Check {
        /// Files, relative to the current folder; they need not exist
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
    },
    /// Answer one of git's hooks; the installed hooks call it
    #[command(hide = true)]
    Hook {
        name: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<std::ffi::OsString>,
    },
}

/// A hook is answered before anything is read that could fail.
pub(crate) fn run_hook(action: Option<&Action>) -> Option<u8> {
    match action {
        Some(Action::Hook { name, args }) => Some(hook::run(name, args)),
        _ => None,
    }
}

pub(crate) fn run(context: &Context, action: Option<Action>) -> Result<u8, Refusal> {
    match action.unwrap_or(Action::Status) {
        Action::Install => install(context),
        Action::Uninstall => uninstall(context),
        Action::Status => status(context),
        Action::Check { paths } => check(context, &paths),
        Action::Hook { .. } => Ok(0),
    }
}

fn place(context: &Context) -> Result<&Place, Refusal> {
    let place = context.host.place.as_ref().filter(|place| place.git_dir.is_some());
    let place = place.ok_or_else(|| {
        Refusal::usage("this is not a git repository, so there are no hooks")
            .next(Step::plain("go to a folder of a git repository, or make one here: git init"))
    })?;
    git_hooks::check(place)?;
    Ok(place)
}

fn failed(error: &onus_repo::GitError) -> Refusal {
    Refusal::new(Code::Unexpected, error.to_string())
}

fn unwritable(folder: &Folder, error: &std::io::Error) -> Refusal {
    let folder = folder.path();
    let message = format!("{}: {error}", path_line(folder));
    match error.kind() {
        std::io::ErrorKind::ResourceBusy => Refusal::new(Code::Unavailable, message),
        _ => Refusal::new(Code::ReadOnly, message).next(Step::MakeWritable(folder.to_owned())),
    }
}

fn done(done: Done) -> &'static str {
    match done {
        Done::Created => "installed",
        Done::Added => "installed; the hook that was there runs as before",
        Done::Restored => "restored as it was",
        Done::Removed => "removed",
        Done::TakenOut => "taken out; what others changed since is kept",
        Done::Unchanged => "unchanged",
    }
}

/// What has to be added by hand to a folder that is not ours.
fn by_hand(context: &Context, folder: &std::path::Path) {
    let out = &context.out;
    out.line(&format!(
        "git's hooks are in {} (core.hooksPath), which onus does not change. Add one line to each of these files, \
         after #!/bin/sh, and make it executable:",
        path_line(folder)
    ));
    for &hook in Hook::ALL {
        out.line(&format!("  {hook}: {}", git_hooks::line_to_add(hook)));
    }
}

fn install(context: &Context) -> Result<u8, Refusal> {
    let place = place(context)?;
    let folder = git_hooks::folder(place).map_err(|error| failed(&error))?;
    let Folder::Own(own) = &folder else {
        let message =
            format!("nothing was installed: core.hooksPath sends git to {}", path_line(folder.path()));
        let refusal = Refusal::new(Code::Unmet, message).next(add_by_hand());
        if context.out.json {
            let add: Vec<Value> = Hook::ALL.iter().map(|hook| to_add(*hook)).collect();
            let report = json!({
                "hooks_path": path_text(folder.path()),
                "installed": false,
                "hooks": [],
                "left": [],
                "add": add,
            });
            return Ok(context.out.report(report, Some(&refusal)));
        }
        by_hand(context, folder.path());
        return Err(refusal);
    };
    let program = std::env::current_exe()
        .map_err(|error| Refusal::new(Code::Unexpected, format!("cannot find this program: {error}")))?;
    let _locked = git_hooks::lock(own).map_err(|error| unwritable(&folder, &error))?;
    let all = git_hooks::install_all(own, &program).map_err(|error| match error.kind() {
        std::io::ErrorKind::IsADirectory => {
            Refusal::new(Code::NotAllowed, format!("nothing was installed: {error}"))
                .next(Step::plain(format!("move it out of {}, then install the guard", path_line(own))))
        }
        _ => {
            let refusal = unwritable(&folder, &error);
            Refusal { message: format!("nothing was installed: {}", refusal.message), ..refusal }
        }
    })?;
    tell(context, &folder, true, &all, &[]);
    if !context.out.json {
        context.out.line("commits are checked");
    }
    Ok(0)
}

fn add_by_hand() -> Step {
    Step::plain("add the line of each hook to the folder that core.hooksPath names")
}

fn to_add(hook: Hook) -> Value {
    json!({ "hook": hook, "line": git_hooks::line_to_add(hook) })
}

fn tell(context: &Context, folder: &Folder, installed: bool, mut all: &[(Hook, Done)], left: &[PathBuf]) {
    if context.out.json {
        let hooks: Vec<Value> =
            all.iter().map(|(hook, done)| json!({ "hook": hook, "done": done })).collect();
        let left: Vec<String> = left.iter().map(|path| path_text(path)).collect();
        let report = json!({
            "hooks_path": path_text(folder.path()),
            "installed": installed,
            "hooks": hooks,
            "left": left,
            "add": [],
        });
        return context.out.document(report, &[]);
    }
    if !installed && all.iter().all(|(_, done)| *done == Done::Unchanged) {
        context.out.line("the guard is not installed here");
        all = &[];
    }
    for (hook, what) in all {
        context.out.line(&format!("{}: {}", hook.as_str(), done(*what)));
    }
    for path in left {
        context.out.line(&format!("left: {}, which others have replaced since", path_line(path)));
    }
}

fn uninstall(context: &Context) -> Result<u8, Refusal> {
    let place = place(context)?;
    context.refuse_agents("uninstall the guard")?;
    let folder = git_hooks::folder(place).map_err(|error| failed(&error))?;
    // Hooks may have been installed before core.hooksPath was set.
    let own = match &folder {
        Folder::Own(own) => own.clone(),
        Folder::Others(_) => place.common_dir.as_deref().unwrap_or(&place.root).join("hooks"),
    };
    let _locked = git_hooks::lock(&own).map_err(|error| unwritable(&folder, &error))?;
    let mut all = Vec::new();
    for &hook in Hook::ALL {
        let taken = git_hooks::uninstall(&own, hook).map_err(|error| unwritable(&folder, &error))?;
        all.push((hook, taken));
    }
    let left = git_hooks::tidy(&own);
    tell(context, &Folder::Own(own), false, &all, &left);
    if let (Folder::Others(folder), false) = (&folder, context.out.json) {
        context.out.line(&format!("what you added to {} yourself stays", path_line(folder)));
    }
    Ok(0)
}

/// What is in a hook's place, and whether git reaches us there.
type Reached = (Hook, Found, bool);

/// How each hook is.
fn reached(place: &Place) -> Result<(Folder, Vec<Reached>), Refusal> {
    let folder = git_hooks::folder(place).map_err(|error| failed(&error))?;
    let nonce = onus_engine::new_uid(clock::now().wall_ms).to_string();
    let mut hooks = Vec::new();
    for &hook in Hook::ALL {
        let is_reached = git_hooks::probe(place, hook, &nonce).map_err(|error| failed(&error))?;
        hooks.push((hook, git_hooks::found(folder.path(), hook), is_reached));
    }
    Ok((folder, hooks))
}

/// Whether anything of ours is in git's hooks here; no process is started beyond what finds the folder.
pub(super) fn is_installed(place: &Place) -> bool {
    let Ok(Folder::Own(folder)) = git_hooks::folder(place) else { return false };
    Hook::ALL.iter().all(|hook| matches!(git_hooks::found(&folder, *hook), Found::Ours | Found::Both))
}

/// The hooks that lack the guard although others have it: somebody took it out, or it was never finished.
pub(super) fn lacking(place: &Place) -> Vec<&'static str> {
    let Ok(Folder::Own(folder)) = git_hooks::folder(place) else { return Vec::new() };
    let is_ours = |hook: &Hook| matches!(git_hooks::found(&folder, *hook), Found::Ours | Found::Both);
    let (ours, others): (Vec<Hook>, Vec<Hook>) = Hook::ALL.iter().partition(|hook| is_ours(hook));
    if ours.is_empty() { Vec::new() } else { others.into_iter().map(Hook::as_str).collect() }
}

fn status(context: &Context) -> Result<u8, Refusal> {
    let place = place(context)?;
    let (folder, hooks) = reached(place)?;
    let missing: Vec<&str> =
        hooks.iter().filter(|(_, _, is_reached)| !is_reached).map(|(hook, ..)| hook.as_str()).collect();
    let is_ours = matches!(folder, Folder::Own(_));
    let is_absent = is_ours && hooks.iter().all(|(_, there, reached)| *there == Found::Nothing && !reached);
    let refusal = (!missing.is_empty()).then(|| {
        let message = match is_absent {
            true => "the guard is not installed: commits are not checked".to_owned(),
            false => format!("git does not reach the guard through {}", missing.join(", ")),
        };
        let step = match is_ours {
            true => Step::InstallGuard,
            false => add_by_hand(),
        };
        Refusal::new(Code::Unmet, message).next(step)
    });
    if context.out.json {
        let all: Vec<Value> = hooks
            .iter()
            .map(|(hook, there, reached)| json!({ "hook": hook, "found": there, "reached": reached }))
            .collect();
        let add: Vec<Value> = match is_ours {
            true => Vec::new(),
            false => hooks.iter().filter(|(.., reached)| !reached).map(|(hook, ..)| to_add(*hook)).collect(),
        };
        let report = json!({
            "hooks_path": path_text(folder.path()),
            "ok": refusal.is_none(),
            "hooks": all,
            "add": add,
        });
        return Ok(context.out.report(report, refusal.as_ref()));
    }
    context.out.line(&format!("hooks: {}", path_line(folder.path())));
    for (hook, there, is_reached) in hooks.iter().filter(|_| !is_absent) {
        let mark = if *is_reached { context.out.good("ok  ") } else { context.out.bad("BAD ") };
        let what = match (there, is_reached) {
            (Found::Both, true) => "git reaches it; the hook that was there runs after it",
            (_, true) => "git reaches it",
            (Found::Nothing, _) => "not installed",
            (Found::Others, _) => "another program's, without the guard",
            (Found::Ours | Found::Both, false) => "installed, but git does not reach it",
        };
        context.out.line(&format!("  {mark} {:<19} {what}", hook.as_str()));
    }
    match refusal {
        Some(refusal) => {
            if !is_ours {
                by_hand(context, folder.path());
            }
            Err(refusal)
        }
        None => Ok(0),
    }
}

fn check(context: &Context, paths: &[PathBuf]) -> Result<u8, Refusal> {
    let (names, checkout) = context.host.files_in_checkout(paths)?;
    let mut engine = context.host.engine(Access::Write)?;
    let identity = context.host.identity(&mut engine)?;
    let notices = if identity.actor.is_person() {
        let conversation = conversation(&identity, &checkout);
        let refusal = engine.reserved_by_another(&conversation, &names)?;
        match (refusal, context.host.config.guard_people()) {
            (Some(refusal), onus_core::policy::GuardPeople::Refuse) => return Err(refusal),
            (refusal, _) => refusal.into_iter().map(|refusal| Notice::info(refusal.message)).collect(),
        }
    } else {
        let touched = Touched { worktree: checkout.id, part: None };
        let branch = checkout.branch;
        let asked = Guard { paths: names.clone(), touched, branch, is_brief: true, ..Guard::default() };
        let request = Request { identity, command: Command::Guard(asked), key: None };
        engine.rehearse(&request)?.notices
    };
    context.out.document_or(json!({ "ok": true, "paths": names }), &notices, || {
        let shown: Vec<String> = names.iter().map(|name| escape_line(name)).collect();
        context.out.line(&format!("you may change: {}", shown.join(", ")));
    });
    Ok(0)
}

/// Somebody who asks about files of a worktree.
fn conversation(identity: &Identity, checkout: &Checkout) -> Conversation {
    Conversation {
        actor: identity.actor.clone(),
        instance: identity.instance.clone(),
        sub_agent: None,
        process: None,
        worktree: checkout.id.clone(),
        branch: checkout.branch.clone(),
        is_alone: false,
    }
}
