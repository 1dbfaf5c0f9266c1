use onus_core::ids::Prefix;
use onus_core::refusal::Refusal;
use onus_engine::{Engine, new_uid};
use onus_os::clock;
use onus_repo::{Place, Repository, place_for_new_store, shared_folder_mode};
use onus_store::{
    Access, Address, AnyStore, OWN_FOLDER, PostgresStore, SqliteStore, StoreError, make_folder,
};
use serde_json::json;

use crate::args::parse;
use crate::context::Context;
use crate::output::escape_line;
use onus_host::Joining;
use onus_host::StoreAt;

/// Create a store for this repository or folder
///
/// In a git repository the store is in the common git directory, shared by all worktrees and never part of a commit;
/// elsewhere it is in .onus/. The working tree is not touched, and running it again changes nothing. With
/// ONUS_STORE=postgres://… the store is a project on that server, named in onus.toml; if the project already exists, a
/// person joins it with this command, once per clone.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The letters before task numbers, such as ON in ON-142; default: from the folder's name
    #[arg(long, value_name = "LETTERS", value_parser = parse::<Prefix>)]
    prefix: Option<Prefix>,
    /// Add gates to onus.toml for the kind of project that this is (Rust, Python, Node, Go). None of them runs before a person approves it
    #[arg(long)]
    gates: bool,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let place = place_for_new_store(&context.host.folder);
    let at = match context.host.config.get("store.path") {
        Some(_) => context.host.store_at()?,
        None => StoreAt::File(place.store.clone()),
    };
    let name = project_name(&place.root, place.common_dir.as_deref());
    let prefix = args.prefix.clone().unwrap_or_else(|| Prefix::suggest(&name));
    let identity = context.host.identity_without_store()?;
    let (wait, now) = (context.host.config.store_wait(), clock::now().wall_ms);
    let by = (&identity.actor, &identity.instance);
    let uids = (new_uid(now), new_uid(now));
    let joining = match &at {
        StoreAt::Server { joining, .. } => joining.as_ref(),
        StoreAt::File(_) => None,
    };
    joining.map_or(Ok(()), Joining::can_be_recorded)?;
    if let (StoreAt::File(path), Some(folder)) = (&at, place.store.parent())
        && *path == place.store
    {
        make_folder(folder, folder_mode(&place)?).map_err(|error| StoreError::of_io(folder, &error))?;
    }
    let made = match &at {
        StoreAt::File(path) => {
            SqliteStore::create(path, &prefix, uids.0, uids.1, by, wait).map(AnyStore::Sqlite)
        }
        StoreAt::Server { address, .. } => {
            let name = at.project()?;
            with_tables(address, || PostgresStore::create(address, name, &prefix, uids, by, wait))
                .map(AnyStore::Postgres)
        }
    };
    let (store, created) = match made {
        Ok(store) => (store, true),
        Err(StoreError::Exists(_)) => {
            joining.map_or(Ok(()), |joining| joining.may_be_confirmed_by(&identity.actor))?;
            (at.open_to_join(Access::Write, wait)?, false)
        }
        Err(error) => return Err(error.into()),
    };
    let store_text = at.to_string();
    let project = Engine::new(store, context.host.config.policy()).project()?;
    if let Some(wanted) = args.prefix.filter(|wanted| *wanted != project.prefix) {
        return Err(Refusal::usage(format!(
            "this store already has the prefix {}, which cannot be changed to {wanted}",
            project.prefix
        )));
    }
    joining.map_or(Ok(()), Joining::confirm)?;
    let presets = context.host.gate_presets();
    let added = if args.gates { Some(context.host.add_presets(&presets)?) } else { None };
    let keys: Vec<&str> = presets.iter().map(|preset| preset.key).collect();
    if context.out.json {
        let mut document = json!({ "store": store_text, "prefix": project.prefix, "project": project.uid, "created": created });
        if !keys.is_empty() {
            document["gates"] = json!({ "keys": keys, "added": added.is_some() });
        }
        context.out.document(document, &[]);
    } else {
        let what = if created { "made a store" } else { "the store already exists" };
        context.out.line(&format!(
            "{what}: {} (tasks are called {}-1, {}-2, …)",
            escape_line(&store_text),
            project.prefix,
            project.prefix
        ));
        if created {
            context.out.line("next: onus add 'what to do'");
            if place.git_dir.is_some() && !super::guard::is_installed(&place) {
                context.out.line("also: onus guard install   # git's hooks check commits");
            }
        }
        match (&added, keys.is_empty()) {
            (Some(edited), _) => {
                let file = crate::output::path_line(&edited.file);
                context.out.line(&format!("added gates to {file}: {}", keys.join(", ")));
                context
                    .out
                    .line("next: onus trust approve --all   # by a person, after reading 'onus trust list'");
            }
            (None, false) if created => {
                context
                    .out
                    .line(&format!("also: onus init --gates   # tasks must pass: {}", keys.join(", ")));
            }
            (None, _) => {}
        }
    }
    Ok(())
}

/// Makes a project, after creating our tables if the database lacks them; the role must be allowed to.
fn with_tables<T>(address: &Address, make: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    match make() {
        Err(StoreError::Missing(_)) => {
            PostgresStore::migrate(address)?;
            make()
        }
        made => made,
    }
}

/// The mode of the store's folder: open to its user alone, or to everyone whom git lets into the repository.
fn folder_mode(place: &Place) -> Result<u32, Refusal> {
    let repository = Repository::new(place)?;
    Ok(repository.as_ref().and_then(shared_folder_mode).unwrap_or(OWN_FOLDER))
}

/// The name of the repository's main folder, even if called from one of its worktrees.
fn project_name(root: &std::path::Path, common_dir: Option<&std::path::Path>) -> String {
    let folder = match common_dir {
        Some(dir) if dir.file_name().is_some_and(|name| name == ".git") => dir.parent().unwrap_or(root),
        Some(dir) => dir,
        None => root,
    };
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.trim_end_matches(".git").to_owned()
}
