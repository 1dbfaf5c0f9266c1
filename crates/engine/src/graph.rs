//! The graph of work, for people and programs: tasks, what each waits for, the longest chain, and the tasks
//! that block the most others.
//!
//! A task waits for its dependencies and for its parts; both are edges here, and both point from what comes
//! first to what waits for it. (A reset follows only the dependencies.) A query about one task reads only the
//! tasks connected to it; a query about everything reads every unfinished task, and only the titles that are
//! shown.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use onus_core::actor::Actor;
use onus_core::command::Terms;
use onus_core::decide::can_be_taken_over;
use onus_core::graph::analysis::{self, Bottlenecks};
use onus_core::ids::{TaskRef, Uid};
use onus_core::lease::Liveness;
use onus_core::task::{Priority, State, Task, TaskType};
use onus_store::{Direction, Filter, Store};

use crate::query::QueryResult;
use crate::request::Stop;
use crate::snapshot::Snapshot;
use crate::{Engine, Identity};

/// Which part of the graph to show.
#[derive(Clone, Debug, Default)]
pub struct GraphQuery {
    /// Only what this task waits for, and what waits for it, directly or through others.
    pub root: Option<TaskRef>,
    /// With a root: only what it waits for, or only what waits for it.
    pub only: Option<Direction>,
    /// Finished tasks too.
    pub finished: bool,
    /// Show at most this many tasks: first those that nothing waits for, each followed by what it waits for.
    pub limit: Option<usize>,
    /// Always show what the critical path and the bottlenecks name.
    pub named: bool,
    /// How many bottlenecks to name.
    pub bottlenecks: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphView {
    /// The task that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    pub nodes: Vec<NodeView>,
    /// Between the nodes that are shown.
    pub edges: Vec<EdgeView>,
    /// The longest chain of unfinished tasks, from the first to the last.
    pub critical_path: Vec<String>,
    /// The unfinished tasks that most others wait for, the most first.
    pub bottlenecks: Vec<BottleneckView>,
    /// Whether no other task can be a greater bottleneck: false if the search was cut short.
    pub bottlenecks_complete: bool,
    /// How many more tasks belong to what was asked for.
    pub left_out: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeView {
    pub id: String,
    pub title: String,
    #[serde(rename = "type")]
    pub kind: TaskType,
    pub state: State,
    pub priority: Priority,
    /// Whether the asker could claim it now.
    pub ready: bool,
    /// Who holds it, live or lapsed.
    pub holder: Option<String>,
    /// Whether that hold has lapsed.
    pub lapsed: bool,
    /// Dependencies that are not met.
    pub unmet: u64,
    /// Parts that are not finished.
    pub open_children: u64,
    /// Tasks that depend on it and are not finished.
    pub open_dependents: u64,
}

/// `from` comes first: `to` waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EdgeView {
    pub from: String,
    pub to: String,
    pub kind: EdgeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// `to` depends on `from`.
    Dep,
    /// `from` is a part of `to`.
    Part,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BottleneckView {
    pub id: String,
    /// How many unfinished tasks wait for it, directly or through others.
    pub unblocks: u64,
}

impl<S: Store> Engine<S> {
    pub fn graph(&mut self, identity: Option<&Identity>, query: &GraphQuery) -> QueryResult<GraphView> {
        self.ask(identity, |snapshot| {
            let asker = snapshot.asker(identity)?;
            match &query.root {
                Some(reference) => {
                    let root = snapshot.named_task(Some(reference), identity)?;
                    let tasks = snapshot.connected(&root, query)?;
                    let mut edges = Vec::new();
                    for uid in tasks.keys() {
                        let needs = snapshot.read.neighbours(*uid, Direction::Upstream)?;
                        edges.extend(needs.into_iter().map(|on| (*uid, on)));
                    }
                    let net = Net::new(tasks.into_values().collect(), &edges);
                    snapshot.draw(&net, Some(root.uid), query, asker.as_ref())
                }
                None => {
                    let filter = Filter { finished: query.finished, ..Filter::default() };
                    let tasks = snapshot.read.list(&filter, None, u64::from(u32::MAX))?;
                    let edges = snapshot.read.edges(query.finished)?;
                    snapshot.draw(&Net::new(tasks, &edges), None, query, asker.as_ref())
                }
            }
        })
    }
}

/// Tasks and the edges between them, by their place: the best first.
struct Net {
    tasks: Vec<Task>,
    places: BTreeMap<Uid, usize>,
    /// What each waits for, and how.
    waits_for: Vec<Vec<(usize, EdgeKind)>>,
    /// What waits for each.
    ahead: Vec<Vec<(usize, EdgeKind)>>,
}

impl Net {
    fn new(mut tasks: Vec<Task>, deps: &[(Uid, Uid)]) -> Net {
        tasks.sort_by_key(|task| (task.facts.priority, task.number));
        let places: BTreeMap<Uid, usize> =
            tasks.iter().enumerate().map(|(place, task)| (task.uid, place)).collect();
        let place = |uid: &Uid| places.get(uid).copied();
        let parts = tasks.iter().filter_map(|task| Some((place(&task.facts.parent?)?, place(&task.uid)?)));
        let deps = deps.iter().filter_map(|(task, on)| Some((place(task)?, place(on)?)));
        let mut waits_for = vec![Vec::new(); tasks.len()];
        let mut ahead = vec![Vec::new(); tasks.len()];
        let edges = parts.map(|ends| (ends, EdgeKind::Part)).chain(deps.map(|ends| (ends, EdgeKind::Dep)));
        for ((to, from), kind) in edges {
            waits_for[to].push((from, kind));
            ahead[from].push((to, kind));
        }
        for edges in waits_for.iter_mut().chain(&mut ahead) {
            edges.sort_unstable();
        }
        Net { tasks, places, waits_for, ahead }
    }

    /// The places in the order in which they are shown, so that the first few make sense by themselves: tasks
    /// that nothing waits for, each followed by what it waits for, and last the unconnected tasks. With a
    /// root: what it waits for, then what waits for it.
    fn shown(&self, root: Option<Uid>) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.tasks.len());
        let mut is_in = vec![false; self.tasks.len()];
        let mut walk = |starts: Vec<usize>, edges: &[Vec<(usize, EdgeKind)>]| {
            let mut stack: Vec<usize> = starts.into_iter().rev().collect();
            while let Some(place) = stack.pop() {
                if !std::mem::replace(&mut is_in[place], true) {
                    order.push(place);
                    stack.extend(edges[place].iter().rev().map(|(other, _)| *other));
                }
            }
        };
        match root.and_then(|root| self.places.get(&root).copied()) {
            Some(root) => {
                walk(vec![root], &self.waits_for);
                walk(self.ahead[root].iter().map(|(other, _)| *other).collect(), &self.ahead);
            }
            None => {
                let mut starts: Vec<usize> =
                    (0..self.tasks.len()).filter(|place| self.ahead[*place].is_empty()).collect();
                starts.sort_by_key(|place| (self.waits_for[*place].is_empty(), *place));
                walk(starts, &self.waits_for);
            }
        }
        order
    }

    /// The unfinished part: what waits for each task, by place.
    fn unfinished(&self) -> Vec<Vec<usize>> {
        let is_open = |place: usize| !self.tasks[place].state.is_finished();
        let ahead = self.ahead.iter().enumerate().map(|(place, ahead)| {
            let open = ahead.iter().map(|(to, _)| *to).filter(|to| is_open(*to) && is_open(place));
            let mut open: Vec<usize> = open.collect();
            // A part that is also a dependency counts once.
            open.dedup();
            open
        });
        ahead.collect()
    }
}

impl Snapshot<'_> {
    /// A task and everything connected to it, in the requested directions. Finished tasks are not followed
    /// unless they are requested, too.
    fn connected(&mut self, root: &Task, query: &GraphQuery) -> Result<BTreeMap<Uid, Task>, Stop> {
        let mut found = BTreeMap::from([(root.uid, root.clone())]);
        for direction in [Direction::Upstream, Direction::Downstream] {
            if query.only.is_some_and(|only| only != direction) {
                continue;
            }
            let mut queue = VecDeque::from([root.clone()]);
            while let Some(task) = queue.pop_front() {
                let beside = match direction {
                    Direction::Upstream => self.read.waits_for(task.uid)?,
                    Direction::Downstream => {
                        let mut beside = self.read.neighbours(task.uid, Direction::Downstream)?;
                        beside.extend(task.facts.parent);
                        beside
                    }
                };
                for uid in beside {
                    if found.contains_key(&uid) {
                        continue;
                    }
                    let Some(other) = self.task(uid)? else { continue };
                    if query.finished || !other.state.is_finished() {
                        found.insert(uid, other.clone());
                        queue.push_back(other);
                    }
                }
            }
        }
        Ok(found)
    }

    fn draw(
        &mut self,
        net: &Net,
        root: Option<Uid>,
        query: &GraphQuery,
        asker: Option<&Actor>,
    ) -> Result<GraphView, Stop> {
        let ahead = net.unfinished();
        let mut critical = analysis::longest_chain(&ahead, |place| net.tasks[place].facts.priority);
        // A single task is not a chain.
        if critical.len() < 2 {
            critical.clear();
        }
        let Bottlenecks { most, complete } =
            analysis::bottlenecks(&ahead, query.bottlenecks, analysis::BUDGET);
        let mut shown = net.shown(root);
        let all = shown.len();
        shown.truncate(query.limit.unwrap_or(all));
        if query.named {
            let mut is_in: BTreeSet<usize> = shown.iter().copied().collect();
            let named = critical.iter().chain(most.iter().map(|(place, _)| place)).copied();
            shown.extend(named.filter(|place| is_in.insert(*place)));
        }
        let is_shown: BTreeSet<usize> = shown.iter().copied().collect();
        let id = |place: usize| self.project.prefix.id(net.tasks[place].number);
        let mut edges = Vec::new();
        for to in &shown {
            let from = net.waits_for[*to].iter().filter(|(from, _)| is_shown.contains(from));
            edges.extend(from.map(|(from, kind)| EdgeView { from: id(*from), to: id(*to), kind: *kind }));
        }
        let critical_path = critical.into_iter().map(id).collect();
        let bottlenecks =
            most.into_iter().map(|(place, behind)| BottleneckView { id: id(place), unblocks: behind as u64 });
        let bottlenecks = bottlenecks.collect();
        let root = root.and_then(|root| net.places.get(&root)).map(|place| id(*place));
        let mut nodes = Vec::with_capacity(shown.len());
        for place in &shown {
            nodes.push(self.node(&net.tasks[*place], asker)?);
        }
        Ok(GraphView {
            root,
            nodes,
            edges,
            critical_path,
            bottlenecks,
            bottlenecks_complete: complete,
            left_out: (all - shown.len()) as u64,
        })
    }

    fn node(&mut self, task: &Task, asker: Option<&Actor>) -> Result<NodeView, Stop> {
        let lease = self.current_lease(task)?;
        let fits = self.is_ready(task, asker, &Terms::default())?;
        let liveness = lease.as_ref().map(|lease| self.liveness(lease));
        let is_free = match (&lease, liveness) {
            (Some(lease), Some(liveness)) => can_be_taken_over(lease, liveness),
            _ => task.state == State::Open,
        };
        Ok(NodeView {
            id: self.id(task.number),
            title: self.title(task)?,
            kind: task.facts.kind,
            state: task.state,
            priority: task.facts.priority,
            ready: is_free && fits,
            holder: lease.as_ref().map(|lease| lease.actor.to_string()),
            lapsed: liveness.is_some_and(|liveness| liveness != Liveness::Live),
            unmet: task.counts.unmet,
            open_children: task.counts.open_children,
            open_dependents: task.counts.open_dependents,
        })
    }
}
