use onus_core::ids::Prefix;
use onus_core::refusal::Refusal;
use onus_engine::{Engine, new_uid};
use onus_repo::place_for_new_store;
use onus_store::{Access, Address, AnyStore, PostgresStore, SqliteStore, StoreError, clock};
use serde_json::json;

use crate::args::parse;
use crate::context::{Context, StoreAt};
use crate::output::escape_line;

/// Make a store for this repository or folder
///
/// In a git repository it lies in the common git dir, shared by all worktrees and never part of a commit; elsewhere in
/// .onus/. Nothing in the working tree is touched. A second time it changes nothing. With ONUS_STORE=postgres://… it is a
/// project of that server, under the name that onus.toml gives it.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The letters before task numbers, such as ON for ON-142; without it, from the folder's name
    #[arg(long, value_name = "LETTERS", value_parser = parse::<Prefix>)]
    prefix: Option<Prefix>,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let place = place_for_new_store(&context.folder);
    let at = match context.config.get("store.path") {
        Some(_) => context.store_at()?,
        None => StoreAt::File(place.store),
    };
    let name = project_name(&place.root, place.common_dir.as_deref());
    let prefix = args.prefix.clone().unwrap_or_else(|| Prefix::suggest(&name));
    let identity = context.identity_without_store()?;
    let (wait, now) = (context.config.store_wait(), clock::now().wall_ms);
    let by = (&identity.actor, &identity.instance);
    let uids = (new_uid(now), new_uid(now));
    let made = match &at {
        StoreAt::File(path) => {
            SqliteStore::create(path, &prefix, uids.0, uids.1, by, wait).map(AnyStore::from)
        }
        StoreAt::Server { address, .. } => {
            let name = at.project()?;
            with_tables(address, || PostgresStore::create(address, name, &prefix, uids, by, wait))
                .map(AnyStore::from)
        }
    };
    let (store, created) = match made {
        Ok(store) => (store, true),
        Err(StoreError::Exists(_)) => (at.open(Access::Write, wait)?, false),
        Err(error) => return Err(error.into()),
    };
    let store_text = at.to_string();
    let project = Engine::new(store, context.config.policy()).project()?;
    if let Some(wanted) = args.prefix.filter(|wanted| *wanted != project.prefix) {
        return Err(Refusal::usage(format!(
            "there is a store here already, with the prefix {}; {wanted} was not set: ids do not change",
            project.prefix
        )));
    }
    if context.out.json {
        context.out.document(
            json!({ "store": store_text, "prefix": project.prefix, "project": project.uid, "created": created }),
            &[],
        );
    } else {
        let what = if created { "made a store" } else { "there is a store already" };
        context.out.line(&format!(
            "{what}: {} (tasks are called {}-1, {}-2, …)",
            escape_line(&store_text),
            project.prefix,
            project.prefix
        ));
        if created {
            context.out.line("next: onus add 'what is to be done'");
        }
    }
    Ok(())
}

/// In a database without our tables they are made first, by who may.
fn with_tables<T>(address: &Address, make: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    match make() {
        Err(StoreError::Missing(_)) => {
            PostgresStore::migrate(address)?;
            make()
        }
        made => made,
    }
}

/// The name of the repository's main folder, also when seen from one of its worktrees.
fn project_name(root: &std::path::Path, common_dir: Option<&std::path::Path>) -> String {
    let folder = match common_dir {
        Some(dir) if dir.file_name().is_some_and(|name| name == ".git") => dir.parent().unwrap_or(root),
        Some(dir) => dir,
        None => root,
    };
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.trim_end_matches(".git").to_owned()
}
