//! Scopes: which paths of the repository a lease reserves, and whether two of them collide (P3).
//!
//! A scope is a list of [`Glob`]s. Two scopes collide if some path is matched by a glob of each and is not among the
//! paths that the project shares. [`overlap`](fn@overlap) decides that exactly, and proves it by a shortest such path. A guess
//! would do harm either way: a missed collision loses work, an invented one stops it.
//!
//! **Globs** are relative to the repository's root and name paths, not folders: `src/auth` is one file,
//! `src/auth/**` (or `src/auth/`, which means the same) everything below. They are case-sensitive.
//!
//! | in a glob | matches |
//! | --- | --- |
//! | `*` | any characters except `/`, also none and also a leading `.` |
//! | `**` | as a whole segment: any number of folders, also none (`**/x` is `x` too); at the end at least one name |
//! | `?` | one character (Unicode scalar value) except `/` |
//! | `[a-z]`, `[!a-z]`, `[^a-z]` | one character in, or not in, the ranges; never `/` |
//! | `{a,b/c}` | one of these, which may be empty, have `/` in them, and be nested |
//! | `\` | takes the next character literally |
//!
//! Unlike in `.gitignore`, a glob without a `/` does not match at every depth, and a `**` that is not a whole segment is
//! refused instead of being taken for `*`.
//!
//! **No library does this.** `globset` matches but cannot intersect; `regex-automata` would have to determinise each
//! glob first, over bytes, which is exponential for `*a*a*a…`, and has no product either. What is needed is small:
//! a nondeterministic automaton per glob (`pattern.rs`), a walk through pairs of steps, shortest first (`overlap.rs`),
//! and, only when the first example found is a shared path, the sets of steps that the shared globs are in
//! (`shared.rs`). Most pairs need none of this: [`anchor`]s, [`head`](fn@head)s and tails rule them out, and comparing a path
//! with a glob is a simple match.
//!
//! **Limits:** [`MAX_GLOB_BYTES`] per glob, [`MAX_PATH_BYTES`] per path, and [`MAX_STEPS`] per search, with
//! [`STEPS_A_PAIR`] more for each pair of globs that had to be compared. Beyond that the answer is
//! [`ScopeError::TooComplex`]. So the time is bounded, whatever the globs are.

pub mod anchor;
mod budget;
mod class;
mod glob;
mod head;
mod overlap;
mod parse;
mod path;
mod pattern;
mod reservation;
mod shared;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::ids::shortened;
use crate::quote::name;
use crate::refusal::Refusal;

use budget::Budget;

pub use glob::{Glob, MAX_GLOB_BYTES};
pub use head::{Heads, head};
pub(crate) use overlap::overlap_where;
pub use overlap::{MAX_STEPS, STEPS_A_PAIR, Witness, overlap};
pub use path::MAX_PATH_BYTES;
pub use reservation::{
    AreaName, Areas, Basis, Reservation, ReservationKind, Reservations, Touched, WorktreeId, collide,
    collision, is_merge, merges,
};

/// The paths that a lease reserves: globs, each once, in the order of their anchors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "Vec<Glob>", into = "Vec<Glob>")]
pub struct Scope {
    globs: Vec<Glob>,
}

impl Scope {
    pub fn globs(&self) -> &[Glob] {
        &self.globs
    }

    /// Whether it reserves nothing.
    pub fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }

    /// Adds a glob. Returns whether it is new.
    pub fn insert(&mut self, glob: Glob) -> bool {
        match self.globs.binary_search(&glob) {
            Ok(_) => false,
            Err(at) => {
                self.globs.insert(at, glob);
                true
            }
        }
    }

    /// Removes a glob. Returns whether it was in the scope.
    pub fn remove(&mut self, glob: &Glob) -> bool {
        self.globs.binary_search(glob).map(|at| self.globs.remove(at)).is_ok()
    }

    /// Whether it has exactly this glob.
    pub fn has(&self, glob: &Glob) -> bool {
        self.globs.binary_search(glob).is_ok()
    }

    /// Whether some glob matches the path.
    pub fn covers(&self, path: &str) -> bool {
        covers_where(&self.globs, path, |_| true)
    }
}

/// Whether one of these rows, which are sorted by their globs, counts and matches the path. Even among thousands of touched
/// files this takes only a few look-ups.
fn covers_where<R: AsRef<Glob>>(rows: &[R], path: &str, counts: impl Fn(&R) -> bool) -> bool {
    path::seen(path).is_some_and(|path| {
        anchor::ancestors(&path).chain([&*path]).any(|anchor| {
            let from = rows.partition_point(|row| row.as_ref().anchor() < anchor);
            let mut alike = rows.iter().skip(from).take_while(|row| row.as_ref().anchor() == anchor);
            alike.any(|row| counts(row) && row.as_ref().admits(&path, &mut Budget::unlimited()))
        })
    })
}

impl From<Vec<Glob>> for Scope {
    fn from(mut globs: Vec<Glob>) -> Scope {
        globs.sort_unstable();
        globs.dedup();
        Scope { globs }
    }
}

impl From<Scope> for Vec<Glob> {
    fn from(scope: Scope) -> Vec<Glob> {
        scope.globs
    }
}

impl FromIterator<Glob> for Scope {
    fn from_iter<I: IntoIterator<Item = Glob>>(globs: I) -> Scope {
        Vec::from_iter(globs).into()
    }
}

impl Extend<Glob> for Scope {
    fn extend<I: IntoIterator<Item = Glob>>(&mut self, globs: I) {
        let mut all = std::mem::take(&mut self.globs);
        all.extend(globs);
        *self = all.into();
    }
}

/// Why a glob or a path cannot be in a scope, or two scopes cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    #[error("'{glob}' is not a glob: {fault}")]
    NotAGlob { glob: String, fault: Fault },
    #[error("'{path}' is not a path in the repository: {fault}")]
    NotAPath { path: String, fault: Fault },
    #[error(
        "whether {} and {} share a path could not be found out in {limit} steps: \
         use fewer wildcards, or name the folders",
        name(.left), name(.right)
    )]
    TooComplex { left: String, right: String, limit: u64 },
}

impl ScopeError {
    fn not_a_glob(text: &str, fault: Fault) -> ScopeError {
        ScopeError::NotAGlob { glob: shortened(text), fault }
    }

    fn not_a_path(text: &str, fault: Fault) -> ScopeError {
        ScopeError::NotAPath { path: shortened(text), fault }
    }
}

impl From<ScopeError> for Refusal {
    fn from(error: ScopeError) -> Refusal {
        Refusal::usage(error.to_string())
    }
}

/// What is wrong with a glob or a path, and what to write instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is empty; '**' is the whole repository")]
    Empty,
    #[error("it begins with '/'; write it from the repository's root, without that")]
    Absolute,
    #[error("a scope has no exceptions; write '\\!' if the name begins with '!'")]
    Exception,
    #[error("it is {bytes} bytes long; the limit is {max}")]
    TooLong { bytes: usize, max: usize },
    #[error("it has a control character; use '?' in its place")]
    Control,
    #[error("'.' and '..' are not allowed; write it from the repository's root, without them")]
    Dots,
    #[error("a segment is empty ('//'); if braces leave it empty, put the '/' into them: 'a/{{b/,}}c'")]
    EmptySegment,
    #[error("an alternative leaves it empty or ends it with '/'; write '**' for everything below a folder")]
    OpenEnd,
    #[error("it names a folder; name the files, or use a glob that ends in '/**'")]
    Folder,
    #[error("'**' stands for whole segments; write '**/*.rs' rather than '**.rs'")]
    PartOfSegment,
    #[error("braces that end in '**' must be followed by '/'; put the '/' into them: '{{**/,a/}}b'")]
    DeepInBraces,
    #[error("'[' has no ']'; close it, or write '\\[' for the character")]
    UnclosedClass,
    #[error("named classes are not supported; write the ranges: '[a-zA-Z]'")]
    NamedClass,
    #[error("a class cannot contain '/'; write the alternatives in braces")]
    SlashInClass,
    #[error("the range '{low}-{high}' runs backwards; write the lower end first")]
    Backwards { low: char, high: char },
    #[error("a class matches no character; exclude fewer in '[!…]'")]
    EmptyClass,
    #[error("'{{' has no '}}'; close it, or write '\\{{' for the character")]
    UnclosedBraces,
    #[error("'}}' has no '{{'; write '\\}}' for the character")]
    UnopenedBraces,
    #[error("'{{}}' has no alternatives; write '\\{{\\}}' for the characters")]
    EmptyBraces,
    #[error("a backslash only escapes special characters; write '/' between segments")]
    Backslash,
}
