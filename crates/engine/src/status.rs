//! Who holds what, and which holds need somebody's attention: each with its cause and the safe next command.

use std::collections::BTreeMap;

use serde::Serialize;

use onus_core::lease::LapseCause;
use onus_core::refusal::Refusal;
use onus_core::task::State;
use onus_core::time::{SECOND_MS, Span};
use onus_store::Store;

use crate::query::Looked;
use crate::view::LeaseView;
use crate::{Engine, Identity};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusView {
    pub project: String,
    pub prefix: String,
    /// Number of tasks by state.
    pub counts: BTreeMap<String, u64>,
    /// Live leases.
    pub held: Vec<HeldView>,
    /// Leases that lapsed and wait for a takeover, with the safe next command.
    pub lapsed: Vec<HeldView>,
    /// People's leases without a sign of life for a long time.
    pub stale: Vec<HeldView>,
    /// Agents that live, and of whose work nothing has come for a long time.
    pub stalled: Vec<HeldView>,
    /// What the caller holds.
    pub yours: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldView {
    pub id: String,
    pub title: String,
    pub state: State,
    pub lease: LeaseView,
    /// What happened, for people.
    pub message: String,
    /// The safe next command.
    pub next: Option<String>,
}

impl<S: Store> Engine<S> {
    pub fn status(&mut self, identity: Option<&Identity>) -> Result<Looked<StatusView>, Refusal> {
        self.look(identity, |look| {
            let mut counts: BTreeMap<String, u64> =
                State::ALL.iter().map(|state| (state.to_string(), 0)).collect();
            for (state, count) in look.read.count_by_state()? {
                counts.insert(state.to_string(), count);
            }
            let asker = look.asker(identity)?;
            let mut view = StatusView {
                project: look.project.uid.to_string(),
                prefix: look.project.prefix.to_string(),
                counts,
                held: Vec::new(),
                lapsed: Vec::new(),
                stale: Vec::new(),
                stalled: Vec::new(),
                yours: Vec::new(),
            };
            for (task, lease) in look.read.open_leases(u64::from(u32::MAX))? {
                let id = look.project.prefix.id(task.number);
                let mut renderer = look.renderer();
                let title = renderer.title(&task)?;
                let rendered = renderer.lease(&lease, &id)?;
                let silent = Span::from_ms(look.now.since_ms(&lease.pulse.last));
                let yours = asker
                    .as_ref()
                    .zip(identity)
                    .is_some_and(|(actor, identity)| lease.is_held_by(&actor.name, &identity.instance));
                if yours {
                    view.yours.push(id.clone());
                }
                let held = Span::from_ms(look.now.since_ms(&lease.acquired()));
                let (list, message, next) = match rendered.lapsed_by {
                    Some(cause) => (
                        &mut view.lapsed,
                        format!(
                            "{} ({}) lost it: {}",
                            lease.actor,
                            lease.instance,
                            lapse_text(cause, &silent)
                        ),
                        Some(if yours && matches!(cause, LapseCause::Ttl) {
                            format!("onus renew {id}")
                        } else if yours {
                            format!("onus claim {id}")
                        } else if task.facts.ad_hoc {
                            format!("onus done {id} -m '…'   # after a look at its files: onus show {id}")
                        } else {
                            format!("onus takeover {id} --reason 'its holder lapsed'")
                        }),
                    ),
                    None if rendered.stale => (
                        &mut view.stale,
                        format!("{} has shown no sign of life for {silent}", lease.actor),
                        Some(format!("onus note {id} 'still working on this?'")),
                    ),
                    None if rendered.stalled => (
                        &mut view.stalled,
                        format!(
                            "{} ({}) lives, but nothing has come of its work for {}",
                            lease.actor,
                            lease.instance,
                            Span::from_ms(look.now.since_ms(&lease.pulse.progress))
                        ),
                        Some(format!("onus note {id} 'how far are you?'   # and look at what it does")),
                    ),
                    None => (
                        &mut view.held,
                        match rendered.expires_in_s {
                            Some(s) if lease.grant.process.is_none() => format!(
                                "{} ({}) holds it, for {held} so far, {} left",
                                lease.actor,
                                lease.instance,
                                Span::from_ms(s * SECOND_MS)
                            ),
                            _ => format!("{} ({}) holds it, for {held} so far", lease.actor, lease.instance),
                        },
                        None,
                    ),
                };
                list.push(HeldView { id, title, state: task.state, lease: rendered, message, next });
            }
            Ok(view)
        })
    }
}

/// Why a lease lapsed, in words.
fn lapse_text(cause: LapseCause, silent: &Span) -> String {
    match cause {
        LapseCause::ProcessDied => "its process died".to_owned(),
        LapseCause::Rebooted => "the machine was restarted".to_owned(),
        LapseCause::Ttl => format!("no sign of life for {silent}"),
        LapseCause::MaxHold => "held for the maximum time".to_owned(),
    }
}
