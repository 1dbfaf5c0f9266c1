//! Idle conversations yield: another gets what resting ad-hoc work touched as soon as it wants it, if git
//! calls it unchanged or committed.
//!
//! A request is refused, and its refusal says that nothing else is in the way ([`Resting`]). Git is asked
//! while no transaction is open. If all of the files are clean, each is removed from its lease in a
//! transaction of its own, which compares the lease with the one that git was asked about: its token, that it
//! rests, and how often it was renewed. Then the request is tried once more, as if it came only now.
//!
//! Nothing is lost wherever this stops: a yielded file had nothing uncommitted in it, and its holder, who is
//! told, touches it again with its next edit. A file that git does not call clean, or about which it cannot
//! be asked from here, is kept.

use onus_core::actor::KnownBy;
use onus_core::command::Act;
use onus_core::quote;
use onus_core::refusal::{Refusal, Resting};
use onus_store::Store;

use crate::{Engine, Identity, Reply, Request};

/// What git says about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Unchanged since its checkout's last commit.
    Clean,
    /// Something in it is not committed anywhere.
    Changed,
    /// Its checkout is on another machine, or git cannot tell.
    Unknown,
}

impl<S: Store> Engine<S> {
    /// Has the files in a request's way yielded, if possible, and tries it again.
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
            // Its holder is told that somebody waits, if this works. Two conversations in one folder look the
            // same.
            if *known_by != KnownBy::Worktree {
                let worktree = Some(&kept.files.worktree);
                let _ = self.record_wish((actor, instance), &kept.id, Some(path), worktree);
            }
            return;
        }
        for Resting { task, files, .. } in resting {
            // If its holder has continued meanwhile, the next try reports what is in the way now.
            let _ = self.attempt_act(&request.identity, task, Act::Yield(files));
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
