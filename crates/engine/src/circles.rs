//! Who waits for whom: what holders were refused, as edges for [`onus_core::circle`]. Only a caller that was
//! refused something pays for this.

use std::collections::BTreeSet;
use std::collections::VecDeque;

use onus_core::actor::{ActorName, KnownBy, Wanted};
use onus_core::circle::{Circle, Holder, WISH_MS, Wait, circle_of};
use onus_core::command::{Act, Command};
use onus_core::ids::Uid;
use onus_core::lease::{Lease, Liveness};
use onus_core::refusal::{Code, HolderNote, Refusal};
use onus_core::scope::{Basis, Glob, Reservation, Touched, WorktreeId, collide};
use onus_core::task::Task;
use onus_store::{KnownInstance, Result, Store};

use crate::request::resolve;
use crate::snapshot::Snapshot;
use crate::{Engine, Identity, Reply, Request};

/// How many tasks that a wanted one waits for are read.
const MAX_UPSTREAM: usize = 20;

impl Snapshot<'_> {
    /// The circle that a holder is in, if it waits for anything.
    pub(crate) fn circle_of(&mut self, holder: &Holder) -> Result<Option<Circle>> {
        circle_of(holder, |holder| self.waits_of(holder))
    }

    /// What a holder still waits for. A wish is over when it is old, when nobody has what it is for any more,
    /// or when the current holder got it later: then the refusal had another cause.
    fn waits_of(&mut self, who: &Holder) -> Result<Vec<Wait>> {
        let known = self.read.instance(&who.actor, &who.instance)?;
        let Some(wanted) = known.and_then(|known| known.wants) else { return Ok(Vec::new()) };
        if self.now.wall_ms.saturating_sub(wanted.at_ms) > WISH_MS {
            return Ok(Vec::new());
        }
        let Some(task) = self.task(wanted.task)? else { return Ok(Vec::new()) };
        match (self.live_lease(&task)?, &wanted.path) {
            (Some(lease), Some(path)) if lease.acquired_at_ms <= wanted.at_ms => {
                let reserved = self.scope_of(lease.task, lease.token)?;
                let is_in_the_way =
                    |row: &&Reservation| self.is_in_the_way(&wanted, row) && row.glob.matches(path);
                let glob = reserved.rows().iter().find(is_in_the_way).map(|row| row.glob.clone());
                let wait =
                    glob.map(|glob| self.wait(who, &wanted, &task, &lease, Some((path.clone(), glob))));
                Ok(wait.into_iter().filter(|wait| wait.holder != *who).collect())
            }
            (Some(lease), None) if lease.acquired_at_ms <= wanted.at_ms => {
                let wait = self.wait(who, &wanted, &task, &lease, None);
                Ok(Some(wait).into_iter().filter(|wait| wait.holder != *who).collect())
            }
            (None, None) => self.waits_upstream(who, &wanted, &task),
            _ => Ok(Vec::new()),
        }
    }

    /// Whether a reservation that matches a wanted path excludes it.
    fn is_in_the_way(&self, wanted: &Wanted, row: &Reservation) -> bool {
        let Some(path) = wanted.path.as_deref().and_then(|path| Glob::literal(path).ok()) else {
            return true;
        };
        let basis = Basis::Touched(Touched { worktree: wanted.worktree.clone(), part: None });
        collide(&Reservation::new(path, basis), row, self.policy.across_worktrees)
    }

    /// A wanted task that nobody holds may wait for one that somebody does.
    fn waits_upstream(&mut self, who: &Holder, wanted: &Wanted, task: &Task) -> Result<Vec<Wait>> {
        let (mut seen, mut waits) = (BTreeSet::from([task.uid]), Vec::new());
        let mut queue = VecDeque::from([task.clone()]);
        while let Some(next) = queue.pop_front() {
            if next.counts.unmet == 0 {
                continue;
            }
            for upstream in self.read.unmet(next.uid, MAX_UPSTREAM as u64)? {
                if seen.len() > MAX_UPSTREAM || !seen.insert(upstream.uid) {
                    continue;
                }
                if let Some(lease) = self.live_lease(&upstream)? {
                    let through = Some(self.id(task.number));
                    let wait = self.wait(who, wanted, &upstream, &lease, None);
                    waits.extend(Some(Wait { through, ..wait }).filter(|wait| wait.holder != *who));
                }
                queue.push_back(upstream);
            }
        }
        Ok(waits)
    }

    fn live_lease(&mut self, task: &Task) -> Result<Option<Lease>> {
        let lease = self.current_lease(task)?;
        Ok(lease.filter(|lease| self.liveness(lease) == Liveness::Live))
    }

    fn wait(
        &self,
        who: &Holder,
        wanted: &Wanted,
        task: &Task,
        lease: &Lease,
        path: Option<(String, Glob)>,
    ) -> Wait {
        Wait {
            who: who.clone(),
            at_ms: wanted.at_ms,
            holder: holder_of(lease),
            task: self.id(task.number),
            ad_hoc: task.facts.ad_hoc,
            path,
            through: None,
        }
    }

    /// The circle that keeps the asker from a task: its own, or that of the task's holder.
    pub(crate) fn circle_around(
        &mut self,
        identity: Option<&Identity>,
        task: &Task,
    ) -> Result<Option<Circle>> {
        let mut holders = Vec::new();
        if let (Some(actor), Some(identity)) = (self.asker(identity)?, identity) {
            holders.push(Holder { actor: actor.name, instance: identity.instance.clone() });
        }
        holders.extend(self.live_lease(task)?.map(|lease| holder_of(&lease)));
        let id = self.id(task.number);
        for holder in holders {
            let concerns =
                |wait: &Wait| wait.task == id || wait.through.as_ref() == Some(&id) || wait.holder == holder;
            if let Some(circle) = self.circle_of(&holder)?
                && circle.waits().iter().any(concerns)
            {
                return Ok(Some(circle));
            }
        }
        Ok(None)
    }
}

fn holder_of(lease: &Lease) -> Holder {
    Holder { actor: lease.actor.clone(), instance: lease.instance.clone() }
}

/// What a request was refused because another has it, if waiting for it may close a circle.
enum Wished<'a> {
    /// A path, the id of the task that reserves it, and the worktree in which it was to be touched.
    Path(&'a str, &'a str, Option<&'a WorktreeId>),
    /// The id of the task itself.
    Task(&'a str),
}

fn wished<'a>(request: &'a Request, refusal: &'a Refusal) -> Option<Wished<'a>> {
    let identity = &request.identity;
    // Two conversations in one folder look the same: the wish of one must not be reported to the other.
    if identity.known_by == KnownBy::Worktree {
        return None;
    }
    let is_own = |holder: &HolderNote| {
        holder.actor == identity.actor.as_str() && holder.instance == identity.instance.as_str()
    };
    if refusal.holder.as_deref().is_some_and(is_own) {
        return None;
    }
    let Command::OnTask { act, .. } = request.command.itself() else { return None };
    let takes = matches!(act, Act::Claim(_) | Act::Takeover(_));
    match refusal.code {
        Code::Scope if takes || matches!(act, Act::AddScope { .. } | Act::Touch { .. }) => {
            let conflict = refusal.conflict.as_deref()?;
            let worktree = match act {
                Act::Touch { touched, .. } => touched.worktree.as_ref(),
                _ => None,
            };
            Some(Wished::Path(&conflict.path, &conflict.task, worktree))
        }
        Code::Held | Code::Unmet if takes => refusal.task.as_deref().map(Wished::Task),
        _ => None,
    }
}

impl<S: Store> Engine<S> {
    /// Like [`Engine::run`], but remembers what a holder is refused because another has it as its wish.
    pub fn run_or_wish(&mut self, request: &Request) -> std::result::Result<Reply, Refusal> {
        let answer = self.run(request);
        if let Err(refusal) = &answer {
            self.remember_wish(request, refusal);
        }
        answer
    }

    /// Remembers a wish. The refusal stands, whether or not this works.
    pub(crate) fn remember_wish(&mut self, request: &Request, refusal: &Refusal) {
        let Some(wished) = wished(request, refusal) else { return };
        let (path, task, worktree) = match wished {
            Wished::Path(path, task, worktree) => (Some(path), task, worktree),
            Wished::Task(task) => (None, task, None),
        };
        let identity = &request.identity;
        let is_held_up = self.query(|snapshot| {
            let actor = snapshot.actor_behind(&identity.actor)?;
            Ok(snapshot.is_at_work(&actor, identity)?)
        });
        if is_held_up.is_ok_and(|is_held_up| is_held_up) {
            let _ = self.record_wish((&identity.actor, &identity.instance), task, path, worktree);
        }
    }

    /// Remembers for its holder that somebody was refused a path, or a task. `task`: the task whose lease has
    /// it. `worktree`: where the path was to be touched, if that is known and it was not to be declared.
    pub fn record_wish(
        &mut self,
        (actor, instance): (&ActorName, &onus_core::actor::InstanceId),
        task: &str,
        path: Option<&str>,
        worktree: Option<&WorktreeId>,
    ) -> std::result::Result<(), Refusal> {
        let reference = task.parse()?;
        let (task, actor, is_repeated) = self.query(|snapshot| {
            let task = resolve(snapshot.read, snapshot.project, &reference)?;
            let actor = snapshot.actor_behind(actor)?;
            let known = snapshot.read.instance(&actor, instance)?;
            let is_repeated =
                known.is_some_and(|known| is_repeated(&known, task, path, snapshot.now.wall_ms));
            Ok((task, actor, is_repeated))
        })?;
        if is_repeated {
            return Ok(());
        }
        self.store.write(|write| {
            let now_ms = write.now().wall_ms;
            // An instance that was never seen has no news; from now on it has.
            let known = write.instance(&actor, instance)?;
            let known = known.unwrap_or_else(|| KnownInstance::seen(actor.clone(), instance.clone(), now_ms));
            let (path, worktree) = (path.map(str::to_owned), worktree.cloned());
            let wants = Some(Wanted { task, path, worktree, at_ms: now_ms });
            write.put_instance(&KnownInstance { wants, ..known })
        })?;
        Ok(())
    }
}

/// Whether this is the instance's last wish, still recent, and it has done nothing since: one that tries
/// again and again must not wake the others each time.
fn is_repeated(known: &KnownInstance, task: Uid, path: Option<&str>, now_ms: i64) -> bool {
    known.wants.as_ref().is_some_and(|wants| {
        let is_recent = wants.at_ms > known.seen_at_ms && now_ms.saturating_sub(wants.at_ms) < WISH_MS / 2;
        is_recent && wants.task == task && wants.path.as_deref() == path
    })
}

impl Snapshot<'_> {
    /// Whether somebody holds a task live: nobody else can be part of a circle.
    fn is_at_work(&mut self, actor: &ActorName, identity: &Identity) -> Result<bool> {
        let held = self.read.leases_held_by(actor, &identity.instance)?;
        Ok(held.iter().any(|lease| lease.is_of_a_task() && self.liveness(lease) == Liveness::Live))
    }
}
