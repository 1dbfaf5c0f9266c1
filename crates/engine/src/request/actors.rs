//! Actors: registered on first use, joined by aliases, trusted by tier.

use onus_core::actor::{ActorName, Tier};
use onus_core::event::{Body, Draft};
use onus_core::refusal::{Code, Refusal, Step};

use onus_store::StoreError;

use super::{Effect, Outcome, Result, UnitOfWork};

impl UnitOfWork<'_> {
    pub(super) fn register(&mut self, actor: &ActorName, tier: Tier) -> Result<()> {
        // Another request may have registered it while this one waited for the project's row.
        self.write.lock_project()?;
        if self.write.alias(actor)?.is_some() || self.write.actor(actor)?.is_some() {
            return Err(StoreError::Again.into());
        }
        self.append_to_project(Draft::new(Body::ActorRegistered { actor: actor.clone(), tier }))
    }

    /// The actor behind a name that somebody else gave; registered if it is new.
    pub(super) fn ensure_actor(&mut self, name: &ActorName) -> Result<ActorName> {
        let name = self.write.alias(name)?.unwrap_or_else(|| name.clone());
        if self.write.actor(&name)?.is_none() {
            self.register(&name, Tier::DEFAULT)?;
            self.remarks.push(format!("{name} is new here: check the spelling"));
        }
        Ok(name)
    }

    pub(super) fn register_actor(&mut self, actor: &ActorName, tier: Option<Tier>) -> Result<Outcome> {
        if let Some(tier) = tier
            && tier != Tier::DEFAULT
        {
            self.people_only("set a tier")?;
        }
        if self.write.alias(actor)?.is_some() {
            return Err(Refusal::new(Code::NotAllowed, format!("{actor} is already an alias"))
                .next(Step::ListActors)
                .into());
        }
        match (self.write.actor(actor)?, tier) {
            (None, tier) => self.register(actor, tier.unwrap_or(Tier::DEFAULT))?,
            (Some(known), Some(tier)) if known.tier != tier => return self.set_tier(actor, tier),
            (Some(_), _) => {}
        }
        Ok(Outcome::of(Effect::Actor(actor.clone())))
    }

    pub(super) fn set_tier(&mut self, actor: &ActorName, tier: Tier) -> Result<Outcome> {
        self.people_only("set a tier")?;
        let actor = self.known_actor(actor)?;
        self.append_to_project(Draft::new(Body::ActorTierSet { actor: actor.clone(), tier }))?;
        Ok(Outcome::of(Effect::Actor(actor)))
    }

    pub(super) fn add_alias(&mut self, actor: &ActorName, alias: &ActorName) -> Result<Outcome> {
        self.people_only("give an actor an alias")?;
        self.write.lock_project()?;
        let actor = self.known_actor(actor)?;
        if actor.is_person() != alias.is_person() {
            return Err(Refusal::usage(
                "a person and an agent cannot be one actor: use names of the same kind",
            )
            .into());
        }
        if self.write.actor(alias)?.is_some() {
            return Err(Refusal::new(
                Code::NotAllowed,
                format!("{alias} is already an actor: its history stays its own"),
            )
            .next(Step::ListActors)
            .into());
        }
        self.append_to_project(Draft::new(Body::ActorAliased {
            actor: actor.clone(),
            alias: alias.clone(),
        }))?;
        Ok(Outcome::of(Effect::Actor(actor)))
    }

    pub(super) fn people_only(&self, what: &str) -> Result<()> {
        if self.caller.actor.is_person() {
            return Ok(());
        }
        Err(Refusal::new(
            Code::PeopleOnly,
            format!("only a person may {what}; {} is not one", self.caller.actor),
        )
        .next(Step::plain("ask a person"))
        .into())
    }

    pub(super) fn known_actor(&mut self, name: &ActorName) -> Result<ActorName> {
        let name = self.write.alias(name)?.unwrap_or_else(|| name.clone());
        match self.write.actor(&name)? {
            Some(actor) => Ok(actor.name),
            None => Err(Refusal::new(Code::NotFound, format!("there is no actor {name}"))
                .next(Step::ListActors)
                .into()),
        }
    }
}
