//! The merge that a landing commits, made in memory: no checkout, index or reference is touched, and the result depends on the commits alone.
//!
//! **What decides.** `.gitattributes` are read from the target (`--attr-source`), never from a checkout; the user's own
//! (`core.attributesFile`) are left out. The repository's `info/attributes` still apply, since git cannot leave them out.
//! Settings that change how git merges are fixed at git's defaults. So a bare repository, a dirty checkout and another machine
//! all get the same tree.
//!
//! **Drivers.** `merge=union`, `merge=binary` and `-merge` in the target's `.gitattributes` are built into git and apply. Any other
//! name refers to a program in somebody's configuration, which is not run: the file is merged as text, as git does in every
//! clone that has not configured that program. (`merge=ours` is such a name.)
//!
//! **Union.** A text conflict in a regular file that a union glob covers is merged again by `git merge-file --union`, which keeps the
//! lines of both sides. Where both only added lines, each line keeps its place and none is duplicated. Everything else remains a
//! conflict: a file that one side deleted, two files renamed to one name, a mode, a link, a submodule, a binary file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use onus_core::commit::CommitId;
use onus_core::scope::Scope;

use super::{Error, Lander, shown};
use crate::git::{Call, Entry, GitError, MergeTree, drivers, merge_tree};
use crate::rescue::spool::{self, Spool};

/// Generous: a merge with many renamed files is slow.
pub(super) const LIMIT: Duration = Duration::from_secs(10 * 60);

/// Every setting that changes how git merges, at git's default. `merge.renormalize` would run the configured filters.
const SETTINGS: [&str; 8] = [
    "merge.renames=true",
    "merge.directoryRenames=conflict",
    "merge.renameLimit=7000",
    "merge.renormalize=false",
    "merge.conflictStyle=merge",
    "diff.algorithm=histogram",
    "diff.renames=true",
    "core.quotePath=false",
];

/// The most conflicts whose cause is looked into.
const MOST_LOOKED_AT: usize = 50;

/// Replaces every configured driver by git's own text merge. A file that is not text remains a conflict.
const AS_TEXT: &str = "git merge-file --quiet --marker-size=%L %A %O %B || exit 1";

/// Two commits, merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    Clean(Merged),
    /// What somebody has to resolve; never empty.
    Conflicts(Vec<Conflict>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    pub tree: String,
    /// Files that would have been conflicts without a union merge.
    pub unions: Vec<Union>,
}

/// A file whose lines were kept from both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    pub path: String,
    /// The lines that somebody would have had to resolve.
    pub conflict_lines: u64,
}

/// A file that both sides changed in ways that git cannot combine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub path: String,
    /// Git's word for it: `contents`, `modify/delete`, `rename/rename`, …
    pub kind: String,
    /// Git's message about it.
    pub says: String,
    /// Lines between the conflict markers, both sides together.
    pub conflict_lines: u64,
    /// Both sides only added lines at its end.
    pub only_appended: bool,
}

/// The parsed output of `git merge-tree`.
#[derive(Debug, Default)]
struct Answer {
    tree: String,
    /// By path, then by stage: 1 the base, 2 the target, 3 the branch.
    stages: BTreeMap<Vec<u8>, BTreeMap<u8, Entry>>,
    /// The paths of each conflict, its kind, and git's message.
    conflicts: Vec<(Vec<Vec<u8>>, String, String)>,
}

/// A text's lines, each with its line ending.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The lines that a side added before each line of the base and after the last; None if it did anything but add.
fn added<'a>(base: &[&[u8]], side: &[&'a [u8]]) -> Option<Vec<Vec<&'a [u8]>>> {
    let mut gaps = vec![Vec::new()];
    let mut rest = base.iter();
    let mut next = rest.next();
    for line in side {
        match next {
            Some(own) if own == line => {
                next = rest.next();
                gaps.push(Vec::new());
            }
            _ => gaps.last_mut()?.push(*line),
        }
    }
    next.is_none().then_some(gaps)
}

/// Combines two sides that each only added lines: in every place the target's lines come first, then the branch's. Lines that both
/// added in one place appear once. None if either side did more than add.
fn interleaved(base: &[u8], target: &[u8], branch: &[u8]) -> Option<Vec<u8>> {
    let ends = |text: &[u8]| text.is_empty() || text.ends_with(b"\n");
    if ![base, target, branch].into_iter().all(ends) {
        return None;
    }
    let base = lines(base);
    let (ours, theirs) = (added(&base, &lines(target))?, added(&base, &lines(branch))?);
    let mut out = Vec::with_capacity(target.len() + branch.len());
    let own = base.iter().map(Some).chain([None]);
    for ((ours, theirs), own) in ours.iter().zip(&theirs).zip(own) {
        out.extend(ours.concat());
        if ours != theirs {
            out.extend(theirs.concat());
        }
        out.extend(own.copied().unwrap_or_default());
    }
    Some(out)
}

impl Lander {
    /// Merges the branch into the target.
    pub fn merge(&self, target: &CommitId, branch: &CommitId, union: &Scope) -> Result<Merge, Error> {
        self.check_git()?;
        self.three_way(target, None, target.as_str(), branch, union, LIMIT)
    }

    /// Applies the changes from `base` (by default the merge base) to `theirs` onto `ours`, using the attributes of commit `attributes`.
    pub(super) fn three_way(
        &self,
        attributes: &CommitId,
        base: Option<&CommitId>,
        ours: &str,
        theirs: &CommitId,
        union: &Scope,
        limit: Duration,
    ) -> Result<Merge, Error> {
        let spool = Spool::new(&self.own_folder())?;
        // Read again for each merge, so that a driver configured a moment ago is not run either.
        let drivers = drivers(&self.repository, LIMIT)?;
        let drivers: Vec<(String, &str)> = drivers.into_iter().map(|key| (key, AS_TEXT)).collect();
        // Drivers write their temporary files here.
        let call = self.git().within(spool.path()).overriding(&drivers).limit(limit);
        let call = call.word(format!("--attr-source={attributes}"));
        let call = SETTINGS.iter().fold(call, |call, setting| call.words(&["-c", setting]));
        let base_option = base.map(|base| format!("--merge-base={base}"));
        let options: Vec<&str> = ["--messages"].into_iter().chain(base_option.as_deref()).collect();
        let MergeTree { is_clean, out } = merge_tree(call, &options, (ours, theirs.as_str()))?;
        let answer = read(&out).ok_or_else(|| unexpected("its answer about a merge is not understood"))?;
        if is_clean {
            return Ok(Merge::Clean(Merged { tree: answer.tree, unions: Vec::new() }));
        }
        let lines = self.conflict_lines(&answer);
        let is_covered = |path: &[u8]| std::str::from_utf8(path).is_ok_and(|path| union.covers(path));
        let both_added =
            |(path, stages): (&Vec<u8>, &BTreeMap<u8, Entry>)| is_covered(path) && !stages.contains_key(&1);
        let renamed = match answer.stages.iter().any(both_added) {
            true => self.renamed(base, ours, theirs)?,
            false => BTreeSet::new(),
        };
        let mut united: Vec<(Vec<u8>, Entry)> = Vec::new();
        for (path, stages) in &answer.stages {
            let may_be = is_covered(path) && answer.is_only_text(path) && !renamed.contains(path);
            if let Some(mode) = merged_mode(stages).filter(|_| may_be)
                && let Some(object) = self.unite(&spool, stages)?
            {
                united.push((path.clone(), Entry { mode, object }));
            }
        }
        let mut left = answer.without(&united, &lines, (ours, theirs.as_str()));
        if !left.is_empty() {
            for conflict in left.iter_mut().take(MOST_LOOKED_AT) {
                let path = conflict.path.as_bytes();
                let stages = answer.stages.get(path).filter(|_| answer.is_only_text(path));
                conflict.only_appended = stages.is_some_and(|stages| self.is_appended(stages));
            }
            return Ok(Merge::Conflicts(left));
        }
        let tree = self.tree_with(&spool, &answer.tree, &united)?;
        let unions = united.iter().map(|(path, _)| Union {
            path: shown(path),
            conflict_lines: lines.get(path).copied().unwrap_or_default(),
        });
        Ok(Merge::Clean(Merged { tree, unions: unions.collect() }))
    }

    /// The paths that either side renamed a file to. For two files at one path, git does not report which of them were renamed.
    fn renamed(
        &self,
        base: Option<&CommitId>,
        ours: &str,
        theirs: &CommitId,
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let base = match base {
            Some(base) => base.to_string(),
            None => self.git().words(&["merge-base", ours, theirs.as_str()]).limit(LIMIT).line()?,
        };
        let mut found = BTreeSet::new();
        for side in [ours, theirs.as_str()] {
            let words = ["diff-tree", "-r", "-z", "-M", "-l7000", "--diff-filter=R", "--name-status"];
            let out = self.git().words(&words).words(&[&base, side]).limit(LIMIT).run()?;
            // `R100 NUL OLD NUL NEW NUL`
            let fields: Vec<&[u8]> = out.split(|byte| *byte == 0).collect();
            found.extend(fields.chunks_exact(3).map(|fields| fields[2].to_vec()));
        }
        Ok(found)
    }

    /// The content in the base, the target and the branch; empty where the file is absent.
    fn sides(&self, stages: &BTreeMap<u8, Entry>) -> Result<[Vec<u8>; 3], Error> {
        let content = |stage| match stages.get(&stage) {
            Some(Entry { object, .. }) => self.git().words(&["cat-file", "blob", object]).run(),
            None => Ok(Vec::new()),
        };
        Ok([content(1)?, content(2)?, content(3)?])
    }

    /// Whether both sides only appended. Only a hint, so false if the contents cannot be read.
    fn is_appended(&self, stages: &BTreeMap<u8, Entry>) -> bool {
        self.sides(stages).is_ok_and(|[base, target, branch]| {
            base.ends_with(b"\n") && target.starts_with(&base) && branch.starts_with(&base)
        })
    }

    /// Writes the lines of both sides as an object. None if it is not text.
    fn unite(&self, spool: &Spool, stages: &BTreeMap<u8, Entry>) -> Result<Option<String>, Error> {
        let folder = tempfile::tempdir_in(spool.path())?;
        let sides = self.sides(stages)?;
        for (content, name) in sides.iter().zip(["base", "target", "branch"]) {
            spool::write(&folder.path().join(name), content)?;
        }
        let words = ["merge-file", "--stdout", "--quiet", "--union", "target", "base", "branch"];
        let outcome = self.git().within(folder.path()).words(&words).outcome()?;
        match outcome.status.success() {
            true => {
                // Git's own union duplicates the lines between two additions, so it is used only if a side did more than add.
                let united = interleaved(&sides[0], &sides[1], &sides[2]).unwrap_or(outcome.out);
                let words = ["hash-object", "-w", "--no-filters", "--stdin"];
                Ok(Some(self.git().words(&words).input(&united).line()?))
            }
            false => Ok(None),
        }
    }

    /// Returns the tree with some of its files replaced.
    fn tree_with(&self, spool: &Spool, tree: &str, files: &[(Vec<u8>, Entry)]) -> Result<String, Error> {
        let index = spool.path().join("index");
        let call = || -> Call<'_> { self.git().env("GIT_INDEX_FILE", &index).limit(LIMIT) };
        call().words(&["read-tree", tree]).run()?;
        let lines = files.iter().flat_map(|(path, Entry { mode, object })| {
            [format!("{mode} {object} 0\t").as_bytes(), path, b"\0"].concat()
        });
        let lines: Vec<u8> = lines.collect();
        call().words(&["update-index", "-z", "--index-info"]).input(&lines).run()?;
        Ok(call().words(&["write-tree"]).line()?)
    }

    /// Counts the lines between git's conflict markers in each conflicting text.
    fn conflict_lines(&self, answer: &Answer) -> BTreeMap<Vec<u8>, u64> {
        let texts = answer.stages.keys().filter(|path| answer.is_only_text(path) && !path.contains(&b'\n'));
        let texts: Vec<&Vec<u8>> = texts.collect();
        let names = texts.iter().flat_map(|path| [answer.tree.as_bytes(), b":", path, b"\n"].concat());
        let names: Vec<u8> = names.collect();
        // Counts are only reported and nothing depends on them, so a failure is ignored.
        let out =
            self.git().words(&["cat-file", "--batch"]).input(&names).limit(LIMIT).run().unwrap_or_default();
        let (mut found, mut rest) = (BTreeMap::new(), out.as_slice());
        for path in texts {
            // `OBJECT blob SIZE<newline>CONTENT<newline>`
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
            let header = String::from_utf8_lossy(&rest[..end]).into_owned();
            rest = &rest[end + 1..];
            let size = header.split_once(" blob ").and_then(|(_, size)| size.parse::<usize>().ok());
            let Some(content) = size.and_then(|size| rest.get(..size)) else { continue };
            found.insert(path.clone(), between_marks(content));
            rest = rest.get(content.len() + 1..).unwrap_or_default();
        }
        found
    }
}

fn unexpected(why: &str) -> Error {
    Error::Git(GitError(why.to_owned()))
}

impl Answer {
    /// Whether a text conflict within this one file is its only conflict.
    fn is_only_text(&self, path: &[u8]) -> bool {
        let mut about =
            self.conflicts.iter().filter(|(paths, _, _)| paths.iter().any(|it| it == path)).peekable();
        about.peek().is_some() && about.all(|(paths, kind, _)| kind == "contents" && paths.len() == 1)
    }

    /// The conflicts that remain without the settled files, one per path.
    fn without(
        &self,
        settled: &[(Vec<u8>, Entry)],
        lines: &BTreeMap<Vec<u8>, u64>,
        (ours, theirs): (&str, &str),
    ) -> Vec<Conflict> {
        let is_settled = |path: &[u8]| settled.iter().any(|(it, _)| it == path);
        let of = |path: &[u8]| {
            let about = self.conflicts.iter().find(|(paths, _, _)| paths.iter().any(|it| it == path));
            let (kind, says) = about.map_or(("", ""), |(_, kind, says)| (kind, says));
            // Git renames a file that cannot keep its path after its side: `src~HASH`.
            let name = shown(path);
            let side = name.rsplit_once('~').filter(|(_, side)| *side == ours || *side == theirs);
            Conflict {
                path: side.map_or(name.as_str(), |(name, _)| name).to_owned(),
                kind: kind.to_owned(),
                says: says.replace(ours, "the target").replace(theirs, "the branch"),
                conflict_lines: lines.get(path).copied().unwrap_or_default(),
                only_appended: false,
            }
        };
        let open = self.stages.keys().filter(|path| !is_settled(path));
        // Some conflicts have no stages, such as where the files of a renamed folder belong.
        let rest = self.conflicts.iter().filter(|(paths, _, _)| {
            !paths.iter().any(|path| is_settled(path) || self.stages.contains_key(path))
        });
        let rest: BTreeSet<&Vec<u8>> = rest.flat_map(|(paths, _, _)| paths).collect();
        let mut found: Vec<Conflict> = Vec::new();
        for conflict in open.chain(rest).map(|path| of(path)) {
            if found.iter().all(|it| it.path != conflict.path) {
                found.push(conflict);
            }
        }
        found
    }
}

/// The merged mode of a regular file that both sides have. None if it is not a regular file, or the sides disagree.
fn merged_mode(stages: &BTreeMap<u8, Entry>) -> Option<String> {
    let mode = |stage| stages.get(&stage).map(|stage| stage.mode.as_str());
    let (base, ours, theirs) = (mode(1), mode(2)?, mode(3)?);
    let is_regular = |mode: &str| matches!(mode, "100644" | "100755");
    let merged = match (ours == theirs, base) {
        (true, _) => ours,
        (false, Some(base)) if base == ours => theirs,
        (false, Some(base)) if base == theirs => ours,
        (false, _) => return None,
    };
    (is_regular(ours) && is_regular(theirs) && base.is_none_or(is_regular)).then(|| merged.to_owned())
}

/// `TREE NUL (MODE OBJECT STAGE TAB PATH NUL)* NUL (COUNT NUL (PATH NUL)* KIND NUL TEXT NUL)*`
fn read(out: &[u8]) -> Option<Answer> {
    let mut fields = out.split(|byte| *byte == 0);
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let mut answer = Answer { tree: text(fields.next()?), ..Answer::default() };
    for field in fields.by_ref() {
        if field.is_empty() {
            break;
        }
        let tab = field.iter().position(|byte| *byte == b'\t')?;
        let facts = text(&field[..tab]);
        let [mode, object, stage] = facts.split(' ').collect::<Vec<&str>>()[..] else { return None };
        let side = Entry::new(mode, object);
        answer.stages.entry(field[tab + 1..].to_vec()).or_default().insert(stage.parse().ok()?, side);
    }
    while let Some(count) = fields.next().filter(|count| !count.is_empty()) {
        let count: usize = text(count).trim().parse().ok()?;
        let paths: Vec<Vec<u8>> = fields.by_ref().take(count).map(<[u8]>::to_vec).collect();
        let (kind, says) = (text(fields.next()?), text(fields.next()?));
        let is_conflict = ["CONFLICT (", "ERROR ("].iter().find_map(|begin| kind.strip_prefix(begin));
        if let Some(kind) = is_conflict.and_then(|kind| kind.strip_suffix(')')) {
            answer.conflicts.push((paths, kind.to_owned(), says.trim().to_owned()));
        }
    }
    let is_hash =
        matches!(answer.tree.len(), 40 | 64) && answer.tree.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then_some(answer)
}

/// Counts the lines of both sides between git's conflict markers, excluding the markers.
fn between_marks(content: &[u8]) -> u64 {
    let (mut count, mut is_inside) = (0, false);
    for line in content.split(|byte| *byte == b'\n') {
        match line {
            _ if line.starts_with(b"<<<<<<< ") => is_inside = true,
            _ if line.starts_with(b">>>>>>> ") => is_inside = false,
            b"=======" if is_inside => {}
            _ if is_inside => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes an answer in git's format.
    fn written(answer: &Answer) -> Vec<u8> {
        let mut out = answer.tree.clone().into_bytes();
        out.push(0);
        for (path, stages) in &answer.stages {
            for (stage, Entry { mode, object }) in stages {
                out.extend(format!("{mode} {object} {stage}\t").bytes());
                out.extend([path, &b"\0"[..]].concat());
            }
        }
        out.push(0);
        for (paths, kind, says) in &answer.conflicts {
            out.extend(format!("{}\0", paths.len()).bytes());
            paths.iter().for_each(|path| out.extend([path, &b"\0"[..]].concat()));
            out.extend(format!("CONFLICT ({kind})\0{says}\0").bytes());
        }
        out
    }

    #[test]
    fn what_git_says_of_a_merge_is_read_the_same_again() {
        let execs = onus_fuzz::execs(20_000);
        let read_some = std::cell::Cell::new(0);
        onus_fuzz::run(&onus_fuzz::corpus("merge-tree"), execs, |bytes| {
            let Some(answer) = read(bytes) else { return };
            let paths = answer.stages.keys().chain(answer.conflicts.iter().flat_map(|(paths, ..)| paths));
            for path in paths.filter(|path| !path.is_empty()) {
                assert!(bytes.windows(path.len()).any(|part| part == *path), "git named no such file");
            }
            let again = read(&written(&answer));
            let parts = |answer: Answer| (answer.tree, answer.stages, answer.conflicts);
            read_some.set(read_some.get() + usize::from(!answer.conflicts.is_empty()));
            assert_eq!(again.map(parts), Some(parts(answer)));
        });
        assert!(read_some.get() > 10, "only {} merges with conflicts were read", read_some.get());
    }

    #[test]
    fn lines_that_both_sides_added_all_stay_in_their_order() {
        let has = |whole: &[u8], part: &[u8]| {
            let whole = lines(whole);
            let mut rest = whole.iter();
            lines(part).iter().all(|line| rest.any(|own| own == line))
        };
        onus_fuzz::run(&onus_fuzz::corpus("union"), onus_fuzz::execs(20_000), |bytes| {
            let mut texts = bytes.split(|byte| *byte == 0x1f);
            let mut next = || texts.next().unwrap_or_default();
            let (base, target, branch) = (next(), next(), next());
            if let Some(merged) = interleaved(base, target, branch) {
                assert!([base, target, branch].iter().all(|text| has(&merged, text)));
                assert!(merged.len() <= target.len() + branch.len());
            }
        });
    }
}
