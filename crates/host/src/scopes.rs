//! Converts paths and globs as people type them to the form that scopes use: relative to the repository's root, with `/`.

use std::path::Path;

use onus_core::quote::{name, shell_word};
use onus_core::refusal::Refusal;
use onus_core::scope::{Areas, Glob, Scope};
use onus_repo::{Named, Place, Unnamed, locate, name_of};

use crate::Host;

/// The characters that have a special meaning in a glob.
const SPECIAL: [char; 6] = ['\\', '*', '?', '[', '{', '}'];

/// What some globs reserve, with notices for the caller.
#[derive(Debug, Default)]
pub struct Reserved {
    pub scope: Scope,
    /// Which of these globs were named by an area.
    pub areas: Areas,
    pub notices: Vec<String>,
}

/// The prefix of an area where a glob is expected.
const AREA: &str = "area:";

/// The scope of some globs, relative to the repository's root, and areas (`area:auth`), which stand for their configured globs.
/// A folder means everything in it; the exact name of a file or folder means that one, whatever characters it has; a folder that is
/// a link means what the link leads to.
pub fn reserved(host: &Host, globs: &[String]) -> Result<Reserved, Refusal> {
    let mut reserved = Reserved::default();
    for text in globs {
        match text.strip_prefix(AREA) {
            Some(name) => {
                let (area, paths) = host.config.area(name)?;
                let globs = paths.iter().map(|text| one(host, text, &mut reserved.notices));
                let globs: Vec<Glob> = globs.collect::<Result<_, _>>()?;
                reserved.scope.extend(globs.iter().cloned());
                reserved.areas.insert(area.clone(), globs);
            }
            None => {
                let glob = one(host, text, &mut reserved.notices)?;
                reserved.scope.insert(glob);
            }
        }
    }
    Ok(reserved)
}

fn one(host: &Host, text: &str, notices: &mut Vec<String>) -> Result<Glob, Refusal> {
    match &host.place {
        Some(place) => glob(place, text, notices),
        None => Ok(text.parse()?),
    }
}

/// Checks the label of a task's area: if the project defines areas, it must be one of them.
pub fn area_label(host: &Host, label: Option<String>) -> Result<Option<String>, Refusal> {
    match label {
        Some(label) if host.config.defines_areas() => Ok(Some(host.config.area(&label)?.0.to_string())),
        label => Ok(label),
    }
}

/// The scope to release: globs as they are listed, or as they were typed.
pub fn unreserved(host: &Host, globs: &[String]) -> Result<Scope, Refusal> {
    let mut scope = reserved(host, globs)?.scope;
    let typed = globs.iter().filter(|text| !text.starts_with(AREA));
    scope.extend(typed.filter_map(|text| text.parse().ok()));
    Ok(scope)
}

fn glob(place: &Place, text: &str, notices: &mut Vec<String>) -> Result<Glob, Refusal> {
    if let Some(glob) = literal(place, text)? {
        let class = format!("{{{text}}}").parse::<Glob>().ok();
        let word = class.and_then(|class| shell_word(class.as_str()));
        let meant = word.map(|word| format!("; to reserve what the pattern matches, write {word}"));
        notices.push(format!(
            "{} exists here, so exactly that path is reserved{}",
            name(text),
            meant.unwrap_or_default()
        ));
        return Ok(glob);
    }
    let glob: Glob = text.parse()?;
    notices.extend(class_notice(text));
    if let Some(path) = glob.path() {
        let name = named(place, path, notices);
        return if place.root.join(path).is_dir() { everything_in(&name) } else { Ok(Glob::literal(&name)?) };
    }
    // The folders before the first special character.
    let text = glob.as_str();
    let plain = text.find(SPECIAL).and_then(|at| text[..at].rfind('/')).unwrap_or_default();
    let (folders, rest) = text.split_at(plain);
    let name = named(place, folders, notices);
    if name == folders {
        return Ok(glob);
    }
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    Ok(format!("{}/{rest}", Glob::literal(&name)?).parse()?)
}

/// A notice if a character class looks like a word: `app/[id]/page.tsx` is a path in some frameworks, but `[id]` is a class here.
fn class_notice(text: &str) -> Option<String> {
    let (before, after) = text.split_once('[')?;
    let class = after.split_once(']')?.0;
    let is_word = class.chars().count() > 1 && class.chars().all(|c| c.is_alphanumeric() || c == '.');
    let word = shell_word(&format!("{before}\\[{after}"))?;
    (is_word && !before.ends_with(['\\', '[']) && !before.starts_with('{')).then(|| {
        format!(
            "{} matches one character of that set; for a path of that name, write {word}",
            name(&format!("[{class}]"))
        )
    })
}

/// The file or folder with exactly this name, although the text could be a pattern.
fn literal(place: &Place, text: &str) -> Result<Option<Glob>, Refusal> {
    let path = text.strip_suffix('/').unwrap_or(text);
    let is_name = path.contains(SPECIAL)
        && Glob::literal(path).is_ok_and(|glob| glob.path() == Some(path))
        && place.root.join(path).symlink_metadata().is_ok();
    if !is_name {
        return Ok(None);
    }
    let name = named(place, path, &mut Vec::new());
    let glob = if place.root.join(path).is_dir() { everything_in(&name)? } else { Glob::literal(&name)? };
    Ok(Some(glob))
}

fn everything_in(name: &str) -> Result<Glob, Refusal> {
    Ok(format!("{}/**", Glob::literal(name)?).parse()?)
}

/// The name of a path relative to the root. A path that leads out of the repository is returned unchanged.
fn named(place: &Place, path: &str, notices: &mut Vec<String>) -> String {
    let here = name_of(Some(place), &place.root, Path::new(""));
    let called = name_of(Some(place), &place.root, Path::new(path)).unwrap_or_else(|_| path.to_owned());
    // In a submodule, names are relative to the superproject's root, so every name has a prefix.
    let expected = here.map_or_else(|_| path.to_owned(), |here| format!("{here}/{path}"));
    if called != expected.trim_end_matches('/') {
        notices.push(format!("{} leads to {}, which is what is reserved", name(path), name(&called)));
    }
    called
}

/// Converts a path relative to the caller's folder to one relative to the root of its worktree.
pub(crate) fn in_repository(host: &Host, path: &Path) -> Result<Named, Refusal> {
    let root = host.place.as_ref().map_or(host.folder.as_path(), |place| place.root.as_path());
    locate(host.place.as_ref(), &host.folder, path).map_err(|unnamed| {
        let (path, root) = (name(&path.to_string_lossy()), name(&root.to_string_lossy()));
        Refusal::usage(match unnamed {
            Unnamed::Elsewhere => format!("{path} is outside {root}: only files inside it can be reserved"),
            Unnamed::Root => format!("{path} is the repository itself: name its files"),
            Unnamed::Internal => format!("{path} is not a project file: it belongs to git or onus"),
        })
    })
}
