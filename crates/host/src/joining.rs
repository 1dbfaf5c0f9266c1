//! Joining a project on a server, which a person confirms once per clone.
//!
//! A repository's `onus.toml` names its project on the user's server. Anyone may have written that: a clone from
//! anywhere could name any project, and all work in it would be read from that project and written to it. So
//! a name from a repository is not used until a person has confirmed it, by `onus init` in that clone. A name from the user
//! (in their own file, by ONUS_PROJECT, by --project) needs no confirmation.
//!
//! Confirmations are kept in the user's own state folder, bound to the clone, the server and the project's name
//! (`onus_repo::Consents`).

use std::path::Path;

use onus_core::actor::ActorName;
use onus_core::ids::shortened;
use onus_core::refusal::{Code, Refusal, Step};
use onus_repo::Consents;
use onus_store::Address;
use serde_json::{Value, json};

/// A clone that may join a project.
#[derive(Clone, Debug)]
pub struct Joining {
    /// None if the user has no state folder.
    consents: Option<Consents>,
    about: Value,
    what: String,
}

impl Joining {
    /// `clone` is the folder that identifies the clone, `state` the user's state folder.
    pub fn new(clone: &Path, state: Option<&Path>, address: &Address, project: &str) -> Joining {
        Joining {
            consents: state.and_then(|state| Consents::of(state, "joined", clone).ok()),
            about: json!({ "server": address.place(), "project": project }),
            what: format!("project '{}' of {}", shortened(project), address.shown()),
        }
    }

    fn is_confirmed(&self) -> bool {
        self.consents.as_ref().is_some_and(|consents| consents.is_given(&self.about))
    }

    /// Refuses a project that nobody has confirmed. Called before anything is read from it or written to it.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.is_confirmed() {
            return Ok(());
        }
        let message = format!(
            "this clone has not joined {}: its onus.toml names that project, but nobody has confirmed it here",
            self.what
        );
        Err(Refusal::new(Code::Unconfirmed, message).next(Step::Join))
    }

    /// Refuses an actor that may not confirm. Called before it joins a project that others made.
    pub fn may_be_confirmed_by(&self, actor: &ActorName) -> Result<(), Refusal> {
        if actor.is_person() || self.is_confirmed() {
            return Ok(());
        }
        Err(Refusal::new(
            Code::PeopleOnly,
            format!("a person decides whether this clone joins {}", self.what),
        )
        .next(Step::plain("ask a person to confirm it here, once")))
    }

    /// Whether a confirmation could be recorded.
    pub fn can_be_recorded(&self) -> Result<(), Refusal> {
        match self.consents {
            Some(_) => Ok(()),
            None => Err(Refusal::usage(
                "neither XDG_STATE_HOME nor HOME is set, so there is no place to record that this clone has joined a project",
            )),
        }
    }

    pub fn confirm(&self) -> Result<(), Refusal> {
        let Some(consents) = self.consents.as_ref().filter(|_| !self.is_confirmed()) else {
            return self.can_be_recorded();
        };
        consents.give(&self.about).map_err(|error| {
            Refusal::new(Code::ReadOnly, format!("cannot write to {}: {error}", consents.folder().display()))
        })
    }
}
