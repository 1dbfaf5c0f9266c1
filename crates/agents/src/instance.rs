//! Finds out which instance is calling: the conversation if it can be identified, otherwise a refusal. A wrong owner is worse
//! than none, so nothing here guesses.
//!
//! The first match wins:
//!
//! 1. a person is one instance everywhere;
//! 2. `ONUS_INSTANCE` names it, as it does for everything below `onus run`;
//! 3. the request names it: a hook's payload ([`crate::of_conversation`]), or the metadata of a call to a server;
//! 4. the process above is registered, by a hook, by `onus run` or by hand. Then the harness's variable counts if it names
//!    a conversation *of that process* that has not ended (a server that was started for one conversation keeps its variable
//!    when the next begins); else the process's only live conversation; else the call is refused, with the candidates;
//! 5. no process above is registered, since no hooks are set up: the harness's variable;
//! 6. through a server, the connection; in a shell below the same program, the same connection;
//! 7. the folder.
//!
//! If a harness runs one conversation after another in its process, only the one that was active last is live, whether or not
//! the end of the earlier ones was ever reported.

use onus_core::actor::{ActorName, InstanceId, KnownBy, KnownInstance};
use onus_core::refusal::{Code, Refusal, Step};

use crate::harness::{HARNESSES, Harness, KnownHarness, of_client};
use crate::{Client, Clues, of_folder};

/// What the store knows about the processes above the caller, and about the conversations that the caller may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    /// The instances of the nearest process at or above the caller that has any: live ones first, and of these the one
    /// registered last.
    pub of_process: Vec<KnownInstance>,
    /// The known ones of [`named_conversations`].
    pub named: Vec<KnownInstance>,
}

/// How the instance was identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceSource {
    Person,
    /// `ONUS_INSTANCE`.
    Name,
    /// The request itself names its conversation.
    Request,
    /// A variable of the harness names a conversation of the registered process above.
    Variable,
    /// The registered process above has no other live conversation.
    OnlyOne,
    /// A variable of a harness without a registered process.
    VariableAlone,
    /// The connection to a server.
    Connection,
    Folder,
}

impl InstanceSource {
    pub fn known_by(self) -> KnownBy {
        match self {
            InstanceSource::Person => KnownBy::Person,
            InstanceSource::Name | InstanceSource::Request | InstanceSource::Connection => KnownBy::Name,
            InstanceSource::Variable | InstanceSource::OnlyOne => KnownBy::Ancestor,
            InstanceSource::VariableAlone => KnownBy::Harness,
            InstanceSource::Folder => KnownBy::Worktree,
        }
    }
}

/// The conversations that a request or the variables of harnesses name, each with the actors that may have it: the harness's
/// own, and the one that the caller names. There are several if one harness was started from another's shell.
pub fn named_conversations(
    env: &dyn Fn(&str) -> Option<String>,
    said: Option<&ActorName>,
    client: Option<Client<'_>>,
) -> Vec<(ActorName, InstanceId)> {
    let by_variables =
        HARNESSES.iter().filter_map(|harness| Some((harness.name.to_owned(), harness.conversation_in(env)?)));
    let by_request =
        client.and_then(|client| Some((of_client(client.name), client.conversation?.to_owned())));
    let mut named = Vec::new();
    for (harness, conversation) in by_request.into_iter().chain(by_variables) {
        let Ok(instance) = conversation.parse::<InstanceId>() else { continue };
        let actors = [said.cloned(), format!("agent:{harness}").parse().ok()];
        named.extend(actors.into_iter().flatten().map(|actor| (actor, instance.clone())));
    }
    named
}

impl Registry {
    /// The instances that a process above the caller is registered as. A connection's registration of its client counts only if
    /// no hook has registered the process, and only for the server itself and for shells with the markers of that client: a
    /// person's terminal may be below the same editor.
    pub(crate) fn above(&self, harness: Option<&Harness>, client: Option<Client<'_>>) -> Vec<&KnownInstance> {
        let is_connection = |known: &&KnownInstance| known.instance.of_connection().is_some();
        let spoken_for: Vec<&KnownInstance> =
            self.of_process.iter().filter(|known| !is_connection(known)).collect();
        if !spoken_for.is_empty() {
            return spoken_for;
        }
        let is_clients = |known: &&KnownInstance| match client {
            Some(client) => known.instance.as_str() == client.connection,
            None => harness.is_some_and(|harness| is_agent(&known.actor, &harness.name)),
        };
        let connections: Vec<&KnownInstance> = self.of_process.iter().filter(is_clients).collect();
        if !connections.is_empty() {
            return connections;
        }
        self.below_a_sandbox()
    }

    /// If no process above is visible, as in a sandbox, and one harness was started by another and inherited its variables, the
    /// one that was started last counts.
    fn below_a_sandbox(&self) -> Vec<&KnownInstance> {
        let mut seen: Vec<&KnownInstance> =
            self.named.iter().filter(|known| known.process.is_some() && known.is_live()).collect();
        seen.dedup_by(|a, b| a.instance == b.instance);
        if !self.of_process.is_empty() || seen.len() < 2 {
            return Vec::new();
        }
        let latest = seen.into_iter().max_by_key(|known| known.process.as_ref().map(|process| process.start));
        latest.into_iter().collect()
    }

    /// Whether a hook was ever heard for this actor: in the caller's process, or for its conversation.
    pub fn has_heard_a_hook(&self, actor: &ActorName, instance: &InstanceId) -> bool {
        let is_hooked = |known: &KnownInstance| known.actor == *actor && known.process.is_some();
        let is_connection = |known: &KnownInstance| known.instance.of_connection().is_some();
        self.of_process.iter().any(|known| is_hooked(known) && !is_connection(known))
            || self.named.iter().any(|known| is_hooked(known) && known.instance == *instance)
    }
}

fn is_agent(actor: &ActorName, harness: &str) -> bool {
    actor.as_str().strip_prefix("agent:") == Some(harness)
}

pub(crate) fn instance(
    clues: &Clues<'_>,
    harness: Option<&Harness>,
    actor: &ActorName,
) -> Result<(InstanceId, InstanceSource), Refusal> {
    let named = |source: &str, text: &str| {
        text.parse::<InstanceId>()
            .map_err(|refusal| Refusal::new(Code::Identity, format!("{source}: {}", refusal.message)))
    };
    if actor.is_person() {
        return Ok((InstanceId::person(), InstanceSource::Person));
    }
    if let Some(text) = (clues.env)("ONUS_INSTANCE").filter(|text| !text.is_empty()) {
        return Ok((named("ONUS_INSTANCE", &text)?, InstanceSource::Name));
    }
    if let Some(conversation) = clues.client.and_then(|client| client.conversation) {
        return Ok((named("the conversation", conversation)?, InstanceSource::Request));
    }
    let above: Vec<&KnownInstance> = clues
        .registry
        .above(harness, clues.client)
        .into_iter()
        .filter(|known| known.actor == *actor)
        .collect();
    if let Some(nearest) = above.first() {
        return among(clues, harness, nearest, &above);
    }
    let variable = harness.and_then(|harness| harness.conversation.as_deref());
    if let Some(instance) = variable.and_then(|variable| variable.parse::<InstanceId>().ok()) {
        let is_it = |known: &&KnownInstance| known.actor == *actor && known.instance == instance;
        return match clues.registry.named.iter().find(is_it) {
            Some(known) if !known.is_live() => Err(ended(known)),
            _ => Ok((instance, InstanceSource::VariableAlone)),
        };
    }
    if let Some(client) = clues.client {
        return Ok((client.connection.parse()?, InstanceSource::Connection));
    }
    Ok((of_folder(clues.worktree)?, InstanceSource::Folder))
}

/// Chooses one of the instances of a registered process.
fn among(
    clues: &Clues<'_>,
    harness: Option<&Harness>,
    nearest: &KnownInstance,
    above: &[&KnownInstance],
) -> Result<(InstanceId, InstanceSource), Refusal> {
    let runs = KnownHarness::called(nearest.actor.as_str().trim_start_matches("agent:"))
        .or_else(|| KnownHarness::called(&harness?.name));
    let one_at_a_time = runs.is_some_and(|harness| harness.one_at_a_time);
    let mut live: Vec<&KnownInstance> = above.iter().copied().filter(|known| known.is_live()).collect();
    if one_at_a_time {
        live.truncate(1);
    }
    let is_of_process = |known: &&KnownInstance| {
        known.actor == nearest.actor && known.process == nearest.process && known.is_live()
    };
    let by_variable = clues.registry.named.iter().find(is_of_process);
    let by_variable = by_variable.filter(|named| {
        !one_at_a_time || live.first().is_some_and(|latest| latest.instance == named.instance)
    });
    match (by_variable, live.as_slice()) {
        (Some(named), _) => Ok((named.instance.clone(), InstanceSource::Variable)),
        (None, [only]) => {
            let told_by = match only.instance.of_connection() {
                Some(_) => InstanceSource::Connection,
                None => InstanceSource::OnlyOne,
            };
            Ok((only.instance.clone(), told_by))
        }
        (None, []) => Err(ended(nearest)),
        (None, several) => {
            let mut refusal = Refusal::new(
                Code::Identity,
                format!(
                    "{} runs several conversations of {}, and nothing tells which of them is calling",
                    process(nearest),
                    nearest.actor
                ),
            );
            refusal.candidates = several.iter().map(|known| known.instance.to_string()).collect();
            Err(refusal.next(Step::NameInstance))
        }
    }
}

fn ended(known: &KnownInstance) -> Refusal {
    Refusal::new(
        Code::Identity,
        format!(
            "the conversation of {} that is known of {} has ended, and nothing tells which one is calling now",
            known.actor,
            process(known)
        ),
    )
    .next(Step::NameInstance)
}

fn process(known: &KnownInstance) -> String {
    known.process.as_ref().map_or("its process".to_owned(), |process| format!("process {}", process.pid))
}

#[cfg(test)]
mod tests;
