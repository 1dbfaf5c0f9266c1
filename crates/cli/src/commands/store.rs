use onus_core::quote::counted;
use onus_core::refusal::{Code, Forced, Override, Refusal, Step};
use onus_engine::Engine;
use onus_os::process;
use onus_store::{Access, AnyStore, Migrated, PostgresStore, SqliteStore, Store as _, StoreError, copy};
use serde_json::json;

use crate::context::Context;
use crate::output::escape_line;
use crate::progress::shown;
use onus_host::StoreAt;

/// Update a server's tables, or copy a project to another store
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Verb {
    /// Create or update the tables of a PostgreSQL database
    ///
    /// Run it as the owner of the tables. Everything else works with a role that may only read and write rows (onus_app).
    Migrate {
        /// The database, postgres://OWNER@HOST/DATABASE; default: the configured store
        #[arg(value_name = "ADDRESS")]
        address: Option<String>,
    },
    /// Copy a project from one store to another: the whole ledger, and everything stored with it
    ///
    /// From a file to a server, or the other way round. The copy's ledger and rows are verified, and the heads of both
    /// stores compared. An interrupted copy continues where it stopped. The old store is left as it is: nobody may work
    /// in it any more, or there will be two records.
    Copy {
        /// A file, or postgres://USER@HOST/DATABASE (with the project from --project, else the configured one)
        from: String,
        /// A new file, or a server without that project
        to: String,
        /// The project's name on the server
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// Copy even if there are live leases, whose expiry another clock would then decide
        #[arg(long)]
        with_live_leases: bool,
    },
}

pub(crate) fn run(context: &Context, verb: Verb) -> super::Result {
    match verb {
        Verb::Migrate { address } => migrate(context, address.as_deref()),
        Verb::Copy { from, to, project, with_live_leases } => {
            let at = |text: &str| -> Result<StoreAt, Refusal> {
                Ok(match (context.host.store_named(text, "the command line")?, &project) {
                    (StoreAt::Server { address, .. }, Some(name)) => {
                        StoreAt::Server { address, project: Some(name.clone()), joining: None }
                    }
                    (at, _) => at,
                })
            };
            copy_store(context, &at(&from)?, &at(&to)?, with_live_leases)
        }
    }
}

fn migrate(context: &Context, address: Option<&str>) -> super::Result {
    let at = match address {
        Some(address) => context.host.store_named(address, "the command line")?,
        None => context.host.store_at()?,
    };
    let StoreAt::Server { address, .. } = &at else {
        return Err(Refusal::usage("nothing to do: onus updates the schema of a file when it opens it"));
    };
    let Migrated { found, schema, is_open } = PostgresStore::migrate(address)?;
    let report =
        json!({ "store": address.shown(), "found": found, "schema": schema, "open_to_all": is_open });
    context.out.document_or(report, &[], || {
        let when = if found == schema { "already" } else { "now" };
        context.out.line(&format!("{} has schema {schema} {when}", escape_line(address.shown())));
        if is_open {
            context.out.line(
                "any role of the server may connect to this database: onus doctor says how to change that",
            );
        }
    });
    Ok(())
}

fn copy_store(context: &Context, from: &StoreAt, to: &StoreAt, with_live_leases: bool) -> super::Result {
    let wait = context.host.config.store_wait();
    // What could be done about it, `doctor` would say of the store that is used here.
    let mut source =
        from.open(Access::Read, wait).map_err(|refusal| Refusal { next: Vec::new(), ..refusal })?;
    match with_live_leases {
        true => context.refuse_agents("copy a store whose leases are live")?,
        false => refuse_live(context, &mut source)?,
    }
    let mut target = target(&mut source, to, wait)?;
    let copied =
        shown("events", context.out.json, |progress| copy::copy(&mut source, &mut target, progress))?;
    let mut engine = Engine::new(target, context.host.config.policy());
    engine.verify(&[], &mut |_| {})?;
    // All of that took time: work that was done in the old store meanwhile must not be lost.
    copy::compare(&mut source, engine.store())?;
    if !with_live_leases {
        refuse_live(context, &mut source)?;
    }
    match to {
        StoreAt::File(path) => {
            drop(engine);
            SqliteStore::finish_copy(path, wait)?;
        }
        StoreAt::Server { .. } => {
            if let AnyStore::Postgres(mut store) = engine.into_store() {
                store.finish_copy(to.project()?)?;
            }
        }
    }
    let value = json!({
        "from": from.to_string(), "to": to.to_string(), "events": copied.events, "tasks": copied.tasks,
        "instances": copied.instances, "requests": copied.requests,
    });
    context.out.show(value, &[], || {
        format!(
            "copied and verified {} of {}: {}\n\
             next: set ONUS_STORE, or store.path in your configuration, to the new store",
            counted(copied.events, "event"),
            counted(copied.tasks, "task"),
            escape_line(&to.to_string())
        )
    });
    Ok(())
}

/// The store to copy to: a new one, or the one that an interrupted copy of the same project left.
fn target(source: &mut AnyStore, to: &StoreAt, wait: std::time::Duration) -> Result<AnyStore, Refusal> {
    let project = source.read(|read| read.project())?;
    let made = match to {
        StoreAt::File(path) => SqliteStore::begin_copy(path, project.uid, wait).map(AnyStore::Sqlite),
        StoreAt::Server { address, .. } => {
            PostgresStore::begin_copy(address, to.project()?, &project, wait).map(AnyStore::Postgres)
        }
    };
    made.map_err(|error| match error {
        StoreError::Exists(what) => {
            Refusal::new(Code::Usage, format!("{} already exists: copy to a new place", what.display()))
        }
        error => error.into(),
    })
}

fn refuse_live(context: &Context, source: &mut AnyStore) -> Result<(), Refusal> {
    let live = copy::live_leases(source, &process::observe)?;
    let Some((id, actor)) = live.first() else { return Ok(()) };
    let more = match live.len() {
        1 => String::new(),
        many => format!(", and {} more are held", many - 1),
    };
    let mut refusal = Refusal::new(
        Code::NotAllowed,
        format!("{actor} still holds {id}{more}: after a copy its lease may end early or late"),
    )
    .next(Step::plain("wait until it is released or done, then copy"))
    .next(Step::Status);
    if context.host.identity_without_store().is_ok_and(|identity| identity.actor.is_person()) {
        refusal.overridable = Some(Box::new(Override { by: Forced::LiveCopy, needs_link: false }));
    }
    Err(refusal)
}
