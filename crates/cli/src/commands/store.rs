use onus_core::refusal::{Code, Refusal};
use onus_engine::{Engine, process};
use onus_store::{Access, AnyStore, PostgresStore, SqliteStore, Store as _, StoreError, copy};
use serde_json::json;

use crate::context::{Context, StoreAt};
use crate::output::escape_line;
use crate::progress::Bar;

/// Where the record is kept: bring a server's tables up to date, copy a project
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Make or update the tables of a PostgreSQL database
    ///
    /// Everything else works with a role that may only read and write rows (onus_app); this takes the tables' owner.
    Migrate {
        /// The database, postgres://OWNER@HOST/DATABASE; without it, the configured store
        #[arg(value_name = "ADDRESS")]
        address: Option<String>,
    },
    /// Copy a project from one store into another: the whole ledger, and what lies beside it
    ///
    /// From a file to a server or the other way round. The copy is verified: its ledger, its rows, and that both stores
    /// have the same heads. What was interrupted goes on where it stopped. The old store stays as it is: let nobody work
    /// in it any more, or there will be two records.
    Copy {
        /// A file, or postgres://USER@HOST/DATABASE (its project: --project, else as configured)
        from: String,
        /// A new file, or a server without that project
        to: String,
        /// The project's name on the server
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// Although somebody holds a lease that another clock would decide about from then on
        #[arg(long)]
        with_live_leases: bool,
    },
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    match args.verb {
        Verb::Migrate { address } => migrate(context, address.as_deref()),
        Verb::Copy { from, to, project, with_live_leases } => {
            let at = |text: &str| -> Result<StoreAt, Refusal> {
                Ok(match (context.store_named(text, "the command line")?, &project) {
                    (StoreAt::Server { address, .. }, Some(name)) => {
                        StoreAt::Server { address, project: Some(name.clone()) }
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
        Some(address) => context.store_named(address, "the command line")?,
        None => context.store_at()?,
    };
    let StoreAt::Server { address, .. } = &at else {
        return Err(Refusal::usage(
            "a file's schema is brought up to date when it is opened: there is nothing to do",
        ));
    };
    let (found, now) = PostgresStore::migrate(address)?;
    if context.out.json {
        context.out.document(json!({ "store": address.shown(), "found": found, "schema": now }), &[]);
    } else if found == now {
        context.out.line(&format!("{} has schema {now} already", escape_line(address.shown())));
    } else {
        context.out.line(&format!("{} has schema {now} now", escape_line(address.shown())));
    }
    Ok(())
}

fn copy_store(context: &Context, from: &StoreAt, to: &StoreAt, with_live_leases: bool) -> super::Result {
    let wait = context.config.store_wait();
    let mut source = from.open(Access::Read, wait)?;
    if !with_live_leases {
        refuse_live(&mut source)?;
    }
    let mut target = target(&mut source, to, wait)?;
    let mut bar = Bar::new("events", context.out.json);
    let copied = copy::copy(&mut source, &mut target, &mut |progress| bar.at(progress));
    bar.end();
    let copied = copied?;
    let mut engine = Engine::new(target, context.config.policy());
    engine.verify(&[], &mut |_| {})?;
    // All that took its time: whoever went on working in the old store meanwhile is not left behind.
    copy::compare(&mut source, engine.store())?;
    if !with_live_leases {
        refuse_live(&mut source)?;
    }
    match to {
        StoreAt::File(path) => {
            drop(engine);
            SqliteStore::finish_copy(path)?;
        }
        StoreAt::Server { .. } => {
            if let AnyStore::Postgres(mut store) = engine.into_store() {
                store.finish_copy(to.project()?)?;
            }
        }
    }
    if context.out.json {
        context.out.document(
            json!({
                "from": from.to_string(), "to": to.to_string(), "events": copied.events, "tasks": copied.tasks,
                "instances": copied.instances, "requests": copied.requests,
            }),
            &[],
        );
    } else {
        context.out.line(&format!(
            "copied {} events of {} tasks to {}, and compared",
            copied.events,
            copied.tasks,
            escape_line(&to.to_string())
        ));
        context.out.line("next: set ONUS_STORE, or store.path in your configuration, to the new store");
    }
    Ok(())
}

/// The place for the copy: new, or what an interrupted copy of the same project left.
fn target(source: &mut AnyStore, to: &StoreAt, wait: std::time::Duration) -> Result<AnyStore, Refusal> {
    let project = source.read(|read| read.project())?;
    let made = match to {
        StoreAt::File(path) => SqliteStore::begin_copy(path, project.uid, wait).map(AnyStore::from),
        StoreAt::Server { address, .. } => {
            PostgresStore::begin_copy(address, to.project()?, &project, wait).map(AnyStore::from)
        }
    };
    made.map_err(|error| match error {
        StoreError::Exists(what) => {
            Refusal::new(Code::Usage, format!("{} exists: a copy is made in a new place", what.display()))
        }
        error => error.into(),
    })
}

fn refuse_live(source: &mut AnyStore) -> Result<(), Refusal> {
    let live = copy::live_leases(source, &process::observe)?;
    let Some((id, actor)) = live.first() else { return Ok(()) };
    let more = match live.len() {
        1 => String::new(),
        many => format!(", and {} more are held", many - 1),
    };
    Err(Refusal::new(
        Code::NotAllowed,
        format!("{actor} holds {id}{more}: another clock would decide about that lease from then on"),
    )
    .next("wait until it is released or done, then copy")
    .next("onus status   # what is held")
    .next("onus store copy --with-live-leases …   # copy it all the same"))
}
