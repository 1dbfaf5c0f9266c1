//! Runs one gate on a work tree.
//!
//! A red-green gate is run twice: on the work's base with only the work's tests added, where it must fail, and on the work itself,
//! where it must pass. A test that passes without the work proves nothing about it. The base is checked out in a scratch worktree,
//! which is removed afterwards, even if this process is killed ([`onus_repo::worktrees`]).

use std::path::Path;

use onus_core::gate::{Gate, GateKind, Run, Verdict};
use onus_core::refusal::{Code, Refusal, Step};
use onus_dispatch::Watch;
use onus_repo::Place;
use onus_repo::judged::with_tests_of;
use onus_repo::worktrees::Worktrees;

use super::running::{Live, Part};
use crate::Host;

/// What a gate is run on.
#[derive(Clone, Copy, Debug)]
pub struct On<'a> {
    /// The work tree.
    pub root: &'a Path,
    /// A checkout of the repository; None outside git.
    pub place: Option<&'a Place>,
    /// The tree, or a commit of it.
    pub tree: Option<&'a str>,
    /// The commit that the work began at, for red-green gates.
    pub base: Option<&'a str>,
}

impl Host {
    /// Runs a gate on a work tree, whatever its kind.
    pub fn run_gate_on(
        &self,
        gate: &Gate,
        on: On<'_>,
        told: Vec<(String, String)>,
        live: Live,
        watch: Watch<'_>,
    ) -> Result<(Verdict, Run), Refusal> {
        if gate.kind != GateKind::RedGreen {
            let whole = Part { root: on.root, heading: String::new(), must_fail: false };
            return self.run_parts(gate, &[whole], &told, &live, watch);
        }
        self.approved_gate(gate)?;
        let (Some(place), Some(tree), Some(base)) = (on.place, on.tree, on.base) else {
            let message = format!(
                "gate {} compares a branch with what it began at: the task has no branch of its own",
                gate.key
            );
            return Err(
                Refusal::new(Code::Gate, message).next(Step::plain("work on it in a worktree of its own"))
            );
        };
        let failed = |error: onus_repo::GitError| {
            Refusal::new(Code::Unavailable, format!("gate {} could not be prepared: {error}", gate.key))
        };
        let worktrees =
            Worktrees::of(place)?.ok_or_else(|| failed(onus_repo::GitError("no git".to_owned())))?;
        let root = worktrees.root(self.config.worktrees().root.as_deref())?;
        let (commit, count) = with_tests_of(place, base, tree, &gate.tests).map_err(failed)?;
        worktrees.remove_scratches()?;
        let scratch = worktrees.scratch(&root, &commit)?;
        let red = Part {
            root: scratch.path(),
            heading: format!("without the work, with its tests (changed: {count})"),
            must_fail: true,
        };
        let green = Part { root: on.root, heading: "with the work".to_owned(), must_fail: false };
        let ran = self.run_parts(gate, &[red, green], &told, &live, watch);
        scratch.remove()?;
        ran
    }
}
