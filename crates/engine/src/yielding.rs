//! Idle conversations yield: what resting ad-hoc work touched, another gets as soon as it wants it, if git calls it unchanged or
//! committed.
//!
//! A request is refused, and its refusal says that nothing else is in the way ([`Resting`]). Git looks, while no transaction is
//! open. If every one of the files is clean, each is taken out of its lease in a transaction of its own, which compares the
//! lease with the one that git was asked for: its token, that it rests, and how often it was renewed. Then the request is tried
//! once more, as if it came only now.
//!
//! Nothing is lost wherever this stops: a file that was yielded had nothing uncommitted in it, and its owner, who is told,
//! touches it again with its next edit. A file that git does not call clean, or that it cannot be asked about from here, is kept.

use onus_core::actor::KnownBy;
use onus_core::command::{Act, Command};
use onus_core::quote;
use onus_core::refusal::{Refusal, Resting};
use onus_store::Store;

use crate::{Engine, Identity, Reply, Request};

/// What git says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// It is as its checkout's last commit has it.
    Clean,
    /// Something in it is committed nowhere.
    Changed,
    /// Its checkout is on another machine, or git cannot tell.
    Unknown,
}

impl<S: Store> Engine<S> {
    /// Has the files that are in a request's way yielded, if they can be, and tries it again.
    pub(crate) fn make_way(&mut self, request: &Request, answer: &mut Result<Reply, Refusal>) {
        let Err(refusal) = answer else { return };
        let resting = std::mem::take(&mut refusal.resting);
        if resting.is_empty() {
            return;
        }
        if let Some((kept, path, looked)) = self.kept(&resting) {
            if looked == Looked::Changed {
                refusal.message.push_str(&format!("; {} has uncommitted changes", quote::name(path)));
            }
            let Identity { actor, instance, known_by, .. } = &request.identity;
            // Its owner hears that somebody waits, if this works. Two conversations of one folder look the same.
            if *known_by != KnownBy::Worktree {
                let worktree = Some(&kept.files.worktree);
                let _ = self.record_wish((actor, instance), &kept.id, Some(path), worktree);
            }
            return;
        }
        for Resting { task, files, .. } in resting {
            let act = Act::Yield(files);
            let command = Command::OnTask { task: Some(task.into()), act, force: None };
            let identity = Identity { token: None, ..request.identity.clone() };
            // If its owner has gone on meanwhile, the next try says what is in the way now.
            let _ = self.attempt_one(&Request { identity, command, key: None });
        }
        *answer = self.attempt_one(request);
        if let Err(refusal) = answer {
            refusal.resting.clear();
        }
    }

    /// The first of these files that is not clean.
    fn kept<'r>(&mut self, resting: &'r [Resting]) -> Option<(&'r Resting, &'r str, Looked)> {
        resting.iter().find_map(|resting| {
            let paths = &resting.files.paths;
            let looked = (self.outside.look)(&resting.files.worktree, paths);
            let looked = looked.into_iter().chain(std::iter::repeat(Looked::Unknown));
            let mut not_clean = paths.iter().zip(looked).filter(|(_, looked)| *looked != Looked::Clean);
            not_clean.next().map(|(path, looked)| (resting, path.as_str(), looked))
        })
    }
}
