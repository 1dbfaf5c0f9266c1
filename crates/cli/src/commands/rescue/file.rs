//! Shows and restores the last contents of one file, whoever overwrote it.

use std::path::Path;

use onus_core::quote;
use onus_core::refusal::{Code, Refusal};
use onus_core::time::rfc3339;
use onus_os::clock;
use onus_repo::last::{How, Last, Version};
use onus_store::Access;
use serde_json::json;

use super::{Restore, ago, failed, guard, here};
use crate::context::Context;
use crate::output::escape_line;

/// The file's path from its worktree's root, and its kept contents.
fn versions(context: &Context, file: &Path) -> Result<(String, Last, Vec<Version>), Refusal> {
    let (place, _) = here(context)?;
    let (names, _) = context.host.touched(&[file])?;
    let name = names.into_iter().next().unwrap_or_default();
    let last = Last::of(place).ok_or_else(|| Refusal::usage("this is not a checkout"))?;
    let versions = last.versions(Some(&name));
    if versions.is_empty() {
        let message = format!("no content of {} is kept here", quote::name(&name));
        return Err(Refusal::new(Code::NotFound, message));
    }
    Ok((name, last, versions))
}

fn how(version: &Version) -> String {
    let by: Vec<String> = version.by.iter().map(|(actor, _)| actor.to_string()).collect();
    let by = match by.as_slice() {
        [] => String::new(),
        by => format!(" of {}", by.join(", ")),
    };
    match version.how {
        How::Edited => format!("after an edit{by}"),
        How::Seen => "before a command".to_owned(),
        How::Changed if version.by.is_empty() => "changed by somebody".to_owned(),
        How::Changed => format!("changed while a command{by} ran"),
        How::Replaced => "replaced by a restore".to_owned(),
        How::Restored => "restored".to_owned(),
    }
}

/// Enough digits to tell contents apart.
fn digits(version: &Version) -> &str {
    version.sha256.get(..12).unwrap_or(&version.sha256)
}

pub(super) fn show_file(context: &Context, file: &Path) -> super::super::Result {
    let (name, last, versions) = versions(context, file)?;
    let document = |version: &Version| {
        json!({
            "version": digits(version),
            "at": rfc3339(version.at_ms),
            "bytes": version.bytes,
            "how": how(version),
            "there": last.is_there(version),
        })
    };
    let all: Vec<_> = versions.iter().map(document).collect();
    context.out.document_or(json!({ "file": name, "versions": all }), &[], || {
        for version in &versions {
            let there = if last.is_there(version) { ", there now" } else { "" };
            context.out.line(&format!(
                "{}  {}  {} bytes, {}{there}",
                digits(version),
                ago(&rfc3339(version.at_ms)),
                version.bytes,
                how(version)
            ));
        }
    });
    Ok(())
}

pub(super) fn restore_file(context: &Context, file: &Path, args: &Restore) -> super::super::Result {
    let (name, last, versions) = versions(context, file)?;
    let identity =
        context.host.engine(Access::Read).and_then(|mut engine| context.host.identity(&mut engine)).ok();
    let is_wanted = |version: &&Version| match &args.version {
        Some(digest) => !digest.is_empty() && version.sha256.starts_with(digest.as_str()),
        // The owner does not want what another's command made of the file.
        None => {
            let own = identity.as_ref().filter(|identity| !identity.actor.is_person());
            let is_own = own.is_none_or(|own| version.is_own((&own.actor, &own.instance)));
            let is_anothers = version.how == How::Changed && last.is_there(version);
            is_own && version.how != How::Replaced && !is_anothers
        }
    };
    let wanted = versions.iter().find(is_wanted);
    let Some(version) = wanted.filter(|version| args.version.is_some() || !last.is_there(version)) else {
        let message = match &args.version {
            Some(_) => format!("no content of {} is called that", quote::name(&name)),
            None => format!("{} has the last content that was seen of it", quote::name(&name)),
        };
        return Err(Refusal::new(Code::NotFound, message));
    };
    match &args.to {
        Some(folder) => {
            let content = last.content(version).map_err(failed)?;
            let to = folder.join(Path::new(&name).file_name().unwrap_or_default());
            std::fs::create_dir_all(folder).map_err(failed)?;
            let file = std::fs::File::create_new(&to);
            file.and_then(|mut file| std::io::Write::write_all(&mut file, content.bytes()))
                .map_err(failed)?;
        }
        None => {
            guard(context, vec![name.clone()])?;
            last.bring_back(version, clock::now().wall_ms).map_err(failed)?;
        }
    }
    let (bytes, how, at) = (version.bytes, how(version), ago(&rfc3339(version.at_ms)));
    let value = json!({ "file": name, "version": digits(version), "bytes": bytes, "how": how });
    context.out.show(value, &[], || format!("restored {} ({bytes} bytes, {how}, {at})", escape_line(&name)));
    Ok(())
}
