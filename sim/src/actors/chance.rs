//! Random parts of requests.

use super::*;

/// Files that an agent is about to change. Some harnesses show it the answer, others only a refusal.
pub(super) fn guard(dice: &mut Dice, being: &Being) -> Command {
    Command::Guard(Guard {
        paths: paths(dice),
        process: being.process.clone(),
        touched: touched(dice, being),
        is_heard: dice.one_in(3),
        ..Guard::default()
    })
}

/// A verb without terms.
pub(super) fn plain(verb: Verb) -> Act {
    Act::Move { verb, message: Some("so it is".to_owned()), uncommitted: None, demand: None }
}

/// Where files are changed: mostly in the caller's own worktree, sometimes by a sub-agent.
pub(super) fn touched(dice: &mut Dice, being: &Being) -> Touched {
    let home = being.instance.bytes().fold(0, |sum, byte| sum + usize::from(byte)) % WORKTREES;
    let at = if dice.one_in(5) { dice.below(WORKTREES) } else { home };
    let part = dice.one_in(4).then(|| parsed(&format!("{}/{}", being.instance, dice.below(2))));
    Touched { worktree: worktree(at), part }
}

/// Some globs are named by an area.
pub(super) fn areas(dice: &mut Dice, scope: &Scope) -> Areas {
    let mut areas = Areas::default();
    if dice.one_in(3) && !scope.is_empty() {
        areas.insert(parsed(["api", "docs"][dice.below(2)]), scope.globs().iter().take(1).cloned());
    }
    areas
}

pub(super) fn named(command: &Command) -> Option<u64> {
    match command {
        Command::OnTask { task: Some(TaskRef::Number(number)), .. }
        | Command::Reset { task: Some(TaskRef::Number(number)), .. }
        | Command::Retry { task: Some(TaskRef::Number(number)), .. } => Some(number.0),
        _ => None,
    }
}

pub(super) fn number(id: &str) -> Option<u64> {
    id.rsplit('-').next()?.parse().ok()
}

pub(super) fn scope(dice: &mut Dice) -> Scope {
    let picked: BTreeSet<&str> = (0..1 + dice.below(2)).filter_map(|_| dice.pick(&GLOBS).copied()).collect();
    picked.into_iter().map(parsed::<onus_core::scope::Glob>).collect()
}

pub(super) fn paths(dice: &mut Dice) -> Vec<String> {
    let picked: BTreeSet<&str> =
        (0..1 + dice.below(2)).filter_map(|_| dice.pick(&UNIVERSE).copied()).collect();
    picked.into_iter().map(str::to_owned).collect()
}

/// References in another system. There are few, so that some tasks share one.
pub(super) fn called(dice: &mut Dice) -> (String, String) {
    ("jira".to_owned(), format!("WEB-{}", dice.below(40)))
}

pub(super) fn elsewhere(dice: &mut Dice) -> TaskRef {
    let (system, reference) = called(dice);
    TaskRef::External { system, reference }
}

pub(super) fn constraints(dice: &mut Dice) -> Constraints {
    let some = (0..dice.below(3)).map(|_| match dice.below(5) {
        0 => Constraint::ReadOnly,
        1 => Constraint::NoLand,
        2 => Constraint::NoDelete,
        3 => Constraint::MaxFiles(1 + dice.below(5) as u64),
        _ => Constraint::MaxLines(1 + dice.below(50) as u64),
    });
    some.collect()
}

/// What a branch changes: mostly little, so that some of it may land whatever the constraints are.
pub(crate) fn changes(dice: &mut Dice) -> (Vec<String>, Extent) {
    let files = if dice.one_in(3) { dice.below(9) } else { usize::from(dice.one_in(2)) };
    let changed: Vec<String> = (0..files).map(|file| format!("f{file}")).collect();
    let removed = changed.iter().filter(|_| dice.one_in(8)).cloned().collect();
    let lines = changed.iter().map(|_| 1 + dice.below(12) as u64).sum();
    (changed, Extent { removed, tally: Some(Tally { files: files as u64, lines }) })
}

/// The gates that a task names.
pub(super) fn gates_of(dice: &mut Dice) -> BTreeSet<GateKey> {
    let name = |dice: &mut Dice| match dice.below(12) {
        0 => gates::UNDEFINED,
        at => gates::GATES[at % gates::GATES.len()].0,
    };
    let count = if dice.one_in(3) { 1 + dice.below(2) } else { 0 };
    (0..count).map(|_| gates::key(name(dice))).collect()
}

pub(super) fn edit(dice: &mut Dice) -> Edit {
    let mut edit = Edit { priority: Some([Priority::P0, Priority::P3][dice.below(2)]), ..Edit::default() };
    match dice.below(11) {
        0 => {
            edit.add_scope = scope(dice);
            edit.add_scope_areas = areas(dice, &edit.add_scope);
        }
        1 => edit.remove_scope = scope(dice),
        2 => edit.title = Some("something else".to_owned()),
        3 => edit.acceptance = vec!["one more thing".to_owned()],
        4 => edit.constraints = constraints(dice),
        5 => edit.lift = [ConstraintKind::ALL[dice.below(5)]].into(),
        6 => edit.refs = [called(dice)].map(|(system, id)| (system, Some(id))).into(),
        7 => edit.refs = [("jira".to_owned(), None)].into(),
        8 => edit.add_gates = gates_of(dice),
        9 => edit.remove_gates = gates_of(dice),
        _ => edit.required_tier = Some(Tier::DEFAULT),
    }
    edit
}

/// The texts in this file are well formed.
pub(crate) fn parsed<T: std::str::FromStr>(text: &str) -> T {
    match text.parse() {
        Ok(value) => value,
        Err(_) => unreachable!("'{text}' is well formed"),
    }
}
