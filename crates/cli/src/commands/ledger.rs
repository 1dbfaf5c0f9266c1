use std::io::Write as _;
use std::path::{Path, PathBuf};

use onus_core::command::Command;
use onus_core::quote::counted;
use onus_core::refusal::{Code, Refusal, Step};
use onus_engine::{AnyEngine, Request, SealDocument, Verified};
use onus_repo::{Repository, SEALS};
use onus_store::{Access, OWN_FOLDER, Store as _, StoreError, file_mode, make_folder, new_file};
use serde_json::json;

use crate::context::Context;
use crate::output::{escape_line, path_line, path_text, unwritten};
use crate::progress::shown;
use crate::render::local_time;
use crate::signing;
use onus_host::{StoreAt, env};

/// The files in an anchored commit.
const SEAL_FILE: &str = "seal.jsonl";
const SIGNATURE_FILE: &str = "seal.jsonl.sig";

/// Verify, rebuild, export and seal the record of everything that happened
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Verb {
    /// Check every hash, chain, text and head, and compare with seals
    ///
    /// Seals anchored in git are always compared. Damage exits with 8 and names the event. Only the heads of rows are
    /// checked here; `onus ledger rebuild` compares everything else in the rows, and repairs it.
    Verify {
        /// Also compare with this seal, and check its signature FILE.sig if there is one; repeatable
        #[arg(long = "seal", value_name = "FILE")]
        seals: Vec<PathBuf>,
    },
    /// Derive every row again from the ledger, and repair those that differ
    Rebuild,
    /// Export the whole ledger as JSON Lines: the project, then each event with its texts
    ///
    /// Every line has a schema_version. Redacted texts are left out.
    Export {
        /// A new file; default: standard output (not with --json)
        file: Option<PathBuf>,
    },
    /// Record the head of every stream, so that later changes to the past can be detected
    ///
    /// A seal proves something only if the people who can change the store cannot also change the seal: keep it in git
    /// (--git), sign it (--sign), or write it somewhere else (--out).
    Seal {
        /// Anchor it in git, under refs/onus/seals
        #[arg(long)]
        git: bool,
        /// Sign it with this ssh key; default: ~/.ssh/id_ed25519
        #[arg(long, value_name = "KEY", num_args = 0..=1)]
        sign: Option<Option<PathBuf>>,
        /// Write it to this new file; default: next to the store
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

pub(crate) fn run(context: &Context, verb: Verb) -> super::Result {
    match verb {
        Verb::Verify { seals } => verify(context, &seals),
        Verb::Rebuild => rebuild(context),
        Verb::Export { file } => export(context, file.as_deref()),
        Verb::Seal { git, sign, out } => seal(context, git, sign, out),
    }
}

/// A summary of what was verified.
pub(super) fn intact(verified: &Verified) -> String {
    let (events, tasks) = (counted(verified.events, "event"), counted(verified.tasks, "task"));
    format!("{events}, {tasks}, all chains intact")
}

fn verify(context: &Context, files: &[PathBuf]) -> super::Result {
    let mut engine = context.host.engine(Access::Read)?;
    let seals = seals_to_compare(context, files)?;
    let verified = shown("events", context.out.json, |progress| engine.verify(&seals, progress))?;
    context.out.document_or(&verified, &[], || {
        context.out.line(&format!("{}: {}", context.out.good("OK"), intact(&verified)));
        for seal in &verified.seals {
            context.out.line(&format!("  agrees with {}", escape_line(seal)));
        }
        for erased in &verified.erased {
            let why = erased.reason.as_deref().map(escape_line).unwrap_or_default();
            context.out.line(&format!(
                "  erased from {} by {}: the {} of event {}: {why}",
                erased.task, erased.by, erased.field, erased.version
            ));
        }
    });
    Ok(())
}

/// The seals anchored in this repository, and those in files.
fn seals_to_compare(context: &Context, files: &[PathBuf]) -> Result<Vec<(String, SealDocument)>, Refusal> {
    let mut seals = Vec::new();
    let signers = context.host.config.get("seal.signers").map(|(path, _)| PathBuf::from(path));
    // Programs get the time as the seal has it.
    let time_of = |document: &SealDocument| match context.out.json {
        true => document.header.at.clone(),
        false => local_time(&document.header.at),
    };
    for file in files {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Refusal::usage(format!("cannot read {}: {error}", file.display())))?;
        let document = SealDocument::parse(&text)?;
        let signature = signing::signature_of(file);
        let mut name = format!("the seal of {} in {}", time_of(&document), file.display());
        if signature.exists() {
            let shown = file.display().to_string();
            let signer = signing::signer_of(&shown, &text, &signature, signers.as_deref())?;
            name.push_str(&format!(", signed by {signer}"));
        } else if signers.is_some() {
            return Err(Refusal::new(
                Code::Tampered,
                format!("{} is not signed, but seal.signers requires it", file.display()),
            )
            .next(Step::SignSeal));
        }
        seals.push((name, document));
    }
    if let Some(repository) = repository_with_seals(context)? {
        let fail = |error: onus_repo::GitError| {
            Refusal::new(Code::Unavailable, format!("cannot read the seals in git: {error}"))
        };
        for commit in onus_repo::anchored(&repository, SEALS).map_err(fail)? {
            let text = onus_repo::show(&repository, &commit, SEAL_FILE).map_err(fail)?;
            let document = SealDocument::parse(&text)?;
            let short = commit.get(..12).unwrap_or(&commit);
            let mut name = format!("the seal of {} in git ({short})", time_of(&document));
            // Comparing an unsigned seal too can only reveal more; it is reported as unsigned.
            match onus_repo::show(&repository, &commit, SIGNATURE_FILE) {
                Ok(signature) => {
                    let signer = signing::signer_of_text(&name, &text, &signature, signers.as_deref())?;
                    name.push_str(&format!(", signed by {signer}"));
                }
                Err(_) if signers.is_some() => name.push_str(", not signed"),
                Err(_) => {}
            }
            seals.push((name, document));
        }
    }
    Ok(seals)
}

/// The repository, if a seal was ever anchored in it; this starts no process.
fn repository_with_seals(context: &Context) -> Result<Option<Repository>, Refusal> {
    Ok(context.host.repository()?.filter(|repository| {
        let common_dir = repository.common_dir();
        let packed = std::fs::read_to_string(common_dir.join("packed-refs")).unwrap_or_default();
        // Newer repositories may keep references in tables that only git can read.
        let tables = common_dir.join("reftable").exists();
        tables || common_dir.join(SEALS).exists() || packed.contains(SEALS)
    }))
}

fn rebuild(context: &Context) -> super::Result {
    let mut engine = context.host.engine(Access::Write)?;
    let rebuilt = shown("events", context.out.json, |progress| engine.store().rebuild(progress));
    let rebuilt = rebuilt.map_err(|error| named(&mut engine, error))?;
    let changed: serde_json::Map<_, _> =
        rebuilt.changed.iter().map(|(table, rows)| (table.clone(), json!(rows))).collect();
    let value = json!({ "ok": true, "events": rebuilt.events, "tasks": rebuilt.tasks, "changed": changed });
    context.out.document_or(value, &[], || {
        context.out.line(&format!(
            "rebuilt {} from {}",
            counted(rebuilt.tasks, "task"),
            counted(rebuilt.events, "event")
        ));
        match rebuilt.changed.as_slice() {
            [] => context.out.line("every row was correct; nothing changed"),
            changed => {
                for (table, rows) in changed {
                    context.out.line(&format!("  repaired: {rows} of {table}"));
                }
            }
        }
    });
    Ok(())
}

/// The folder for seals: next to the store or, for a project on a server, in this repository.
fn seals_folder(context: &Context) -> Result<PathBuf, Refusal> {
    match (context.host.store_at()?, &context.host.place) {
        (StoreAt::File(path), _) => Ok(path.with_file_name("seals")),
        (StoreAt::Server { .. }, Some(place)) => Ok(place.store.with_file_name("seals")),
        (StoreAt::Server { .. }, None) => {
            Err(Refusal::usage("there is no repository here to keep the seal in: give a file with --out"))
        }
    }
}

/// The mode of files written from a store: readable by the same users.
fn mode_of_files(context: &Context) -> u32 {
    match context.host.store_at() {
        Ok(StoreAt::File(path)) => file_mode(path.parent().unwrap_or(&path)),
        _ => file_mode(Path::new("")),
    }
}

/// The mode of a new folder: that of its parent.
fn mode_of_folder(folder: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    let beside = folder.parent().and_then(|parent| std::fs::metadata(parent).ok());
    beside.map_or(OWN_FOLDER, |beside| beside.mode() & 0o7777)
}

/// An error about a stream, with the task's id instead of its uid.
fn named(engine: &mut AnyEngine, error: StoreError) -> Refusal {
    let StoreError::Tampered { stream, version, why } = &error else { return error.into() };
    let (stream, version) = (stream.clone(), *version);
    let reference = stream.parse().ok();
    let id = reference
        .and_then(|reference| engine.show(None, Some(&reference)).ok())
        .map(|looked| looked.value.id);
    let mut refusal = match &id {
        Some(id) => {
            Refusal::new(Code::Tampered, format!("event {version} of {id}: {why}")).next(Step::VerifyLedger)
        }
        None => Refusal::from(error),
    };
    let project = engine.store().read(|read| read.project()).map(|project| project.uid.to_string());
    let unnamed = Some(stream).filter(|stream| project.is_ok_and(|project| project != *stream));
    refusal.task = id.or(unnamed);
    refusal.version = Some(version);
    refusal
}

fn export(context: &Context, file: Option<&Path>) -> super::Result {
    let mut engine = context.host.engine(Access::Read)?;
    let Some(path) = file.filter(|file| *file != Path::new("-")) else {
        return export_to_stdout(&mut engine, context.out.json);
    };
    let fail = |error: std::io::Error| StoreError::of_io(path, &error);
    let new = new_file(path, mode_of_files(context));
    let new = new.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Refusal::usage(format!("{} exists: name a new file", path.display()))
        }
        _ => Refusal::usage(format!("cannot create {}: {error}", path.display())),
    })?;
    let mut writer = std::io::BufWriter::new(new);
    let exported = engine.export(&mut |line| writeln!(writer, "{line}").map_err(fail)).and_then(|events| {
        let synced = writer.flush().and_then(|()| writer.get_ref().sync_all());
        synced.map(|()| events).map_err(|error| fail(error).into())
    });
    if exported.is_err() {
        // We have just made this file: half an export must not pass for a whole one.
        let _ = std::fs::remove_file(path);
    }
    let events = exported?;
    let value = json!({ "file": path_text(path), "events": events });
    context.out.show(value, &[], || format!("wrote {} to {}", counted(events, "event"), path_line(path)));
    Ok(())
}

/// Writes each line as it is read. With `--json` the lines are the items of one document.
fn export_to_stdout(engine: &mut AnyEngine, json: bool) -> super::Result {
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    let (mut before, between) = if json { ("{\"lines\":[", ",") } else { ("", "\n") };
    let end = if json { "]}\n" } else { "\n" };
    engine.export(&mut |line| {
        write!(stdout, "{before}{line}").unwrap_or_else(|error| unwritten(&error));
        before = between;
        Ok(())
    })?;
    write!(stdout, "{end}").and_then(|()| stdout.flush()).unwrap_or_else(|error| unwritten(&error));
    Ok(())
}

fn seal(context: &Context, git: bool, sign: Option<Option<PathBuf>>, out: Option<PathBuf>) -> super::Result {
    let mut engine = context.host.engine(Access::Write)?;
    let identity = context.host.identity(&mut engine)?;
    let repository = context.host.repository()?;
    if git && repository.is_none() {
        return Err(Refusal::usage("--git: this is not a git repository"));
    }
    let key = sign.map(signing_key).transpose()?;
    let document = shown("events", context.out.json, |progress| engine.prepare_seal(progress))?;
    let header = document.header.clone();
    let file = match out {
        Some(file) => file,
        None => {
            let folder = seals_folder(context)?;
            make_folder(&folder, mode_of_folder(&folder))
                .map_err(|error| StoreError::of_io(&folder, &error))?;
            folder.join(format!(
                "{}-{}.jsonl",
                header.at.replace(':', ""),
                header.root.get(..12).unwrap_or_default()
            ))
        }
    };
    let text = document.to_text();
    let mut new = new_file(&file, mode_of_files(context))
        .map_err(|error| Refusal::usage(format!("cannot create {}: {error}", file.display())))?;
    if let Err(error) = new.write_all(text.as_bytes()).and_then(|()| new.sync_all()) {
        // We have just made this file: half a seal must not pass for a whole one.
        let _ = std::fs::remove_file(&file);
        return Err(StoreError::of_io(&file, &error).into());
    }
    let signature = key.as_deref().map(|key| signing::sign(&file, key)).transpose()?;
    let commit = match (git, repository) {
        (true, Some(repository)) => {
            let signature = signature.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
            let mut files = vec![(SEAL_FILE, text.as_str())];
            files.extend(signature.as_deref().map(|signature| (SIGNATURE_FILE, signature)));
            let message = format!("seal of {} streams, root {}", header.streams, header.root);
            let anchored = onus_repo::anchor(&repository, SEALS, &files, &message);
            Some(anchored.map_err(|error| Refusal::new(Code::Unexpected, error.to_string()))?)
        }
        _ => None,
    };
    let command = Command::RecordSeal {
        root: header.root.clone(),
        streams: header.streams,
        previous: header.previous.clone(),
    };
    if let Err(refusal) = engine.run(&Request { identity, command, key: None }) {
        // No event records the seal, so its files go. In git it stays: it is still a seal.
        if commit.is_none() && refusal.code != Code::NotKnown {
            for made in signature.iter().chain([&file]) {
                let _ = std::fs::remove_file(made);
            }
        }
        return Err(refusal);
    }
    let mut value = json!(header);
    value["file"] = json!(path_text(&file));
    value["signature"] = json!(signature.as_deref().map(path_text));
    value["commit"] = json!(commit);
    context.out.document_or(value, &[], || {
        context.out.line(&format!("sealed {} streams, root {}", header.streams, header.root));
        context.out.line(&format!("  in {}", path_line(&file)));
        if let Some(signature) = signature {
            context.out.line(&format!("  signed: {}", path_line(&signature)));
        }
        if let Some(commit) = commit {
            context.out.line(&format!("  anchored in git: {SEALS} is {commit}"));
        }
    });
    Ok(())
}

fn signing_key(given: Option<PathBuf>) -> Result<PathBuf, Refusal> {
    let key = match given {
        Some(key) => key,
        None => PathBuf::from(env("HOME").unwrap_or_default()).join(".ssh").join("id_ed25519"),
    };
    if key.exists() {
        Ok(key)
    } else {
        Err(Refusal::usage(format!("there is no key at {}: name one with --sign KEY", key.display())))
    }
}
