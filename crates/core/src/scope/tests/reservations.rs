//! Compares reservations with the simplest model of them.

use proptest::prelude::*;

use super::glob;
use crate::actor::InstanceId;
use crate::policy::AcrossWorktrees;
use crate::scope::{
    Areas, Basis, Reservation, ReservationKind, Reservations, Scope, Touched, WorktreeId, collide, collision,
    merges,
};

fn worktree(n: u8) -> Option<WorktreeId> {
    (n > 0).then(|| WorktreeId::new("machine", &n.to_string()))
}

fn basis() -> impl Strategy<Value = Basis> {
    let area = prop_oneof![Just(None), Just(Some("api".parse().unwrap()))];
    let part = prop_oneof![Just(None), Just(Some("c/1".parse().unwrap()))];
    let touched = (0..3_u8, part).prop_map(|(n, part)| Touched { worktree: worktree(n), part });
    prop_oneof![area.prop_map(|area| Basis::Declared { area }), touched.prop_map(Basis::Touched)]
}

fn row() -> impl Strategy<Value = Reservation> {
    let globs = ["a", "a/b", "a/*", "**/b", "{a,c}/b", "c/**", "c/d"];
    (prop::sample::select(globs.to_vec()), basis())
        .prop_map(|(text, basis)| Reservation::new(glob(text), basis))
}

fn file() -> impl Strategy<Value = Reservation> {
    (prop::sample::select(vec!["a", "a/b", "c/d"]), basis())
        .prop_map(|(text, basis)| Reservation::new(glob(text), basis))
}

/// A path that two of those globs have in common, if there is one.
const PATHS: [&str; 6] = ["a", "a/b", "b", "c/b", "c/d", "c/x/b"];

fn key(row: &Reservation) -> (String, ReservationKind, Option<WorktreeId>, Option<InstanceId>) {
    (row.glob.to_string(), row.basis.kind(), row.basis.worktree().cloned(), row.basis.part().cloned())
}

proptest! {
    /// Row by row: of each key the first row stays, whatever the order of the rest, and every query agrees with that.
    #[test]
    fn rows_are_kept_once_and_say_what_they_match(rows in prop::collection::vec(row(), 0..12)) {
        let mut kept: Vec<Reservation> = Vec::new();
        for row in &rows {
            if !kept.iter().any(|there| key(there) == key(row)) {
                kept.push(row.clone());
            }
        }
        let at_once: Reservations = rows.iter().cloned().collect();
        let (mut one_by_one, mut in_parts) = (Reservations::default(), Reservations::default());
        rows.iter().cloned().for_each(|row| one_by_one.insert(row));
        rows.chunks(3).for_each(|part| in_parts.extend(part.to_vec()));
        prop_assert_eq!(&at_once, &one_by_one);
        prop_assert_eq!(&at_once, &in_parts);
        prop_assert_eq!(at_once.rows().len(), kept.len());
        prop_assert!(kept.iter().all(|row| at_once.rows().contains(row)));
        for path in ["a", "a/b", "c/d", "c/b", "x/y/b", "z"] {
            prop_assert_eq!(at_once.covers(path), kept.iter().any(|row| row.glob.matches(path)), "{}", path);
            for n in 0..4 {
                let here = worktree(n);
                let holds = kept.iter().any(|row| row.glob.matches(path) && match &row.basis {
                    Basis::Declared { .. } => true,
                    Basis::Touched(touched) => touched.worktree == here,
                });
                prop_assert_eq!(at_once.holds(path, here.as_ref()), holds, "{} in {}", path, n);
                for part in [None, Some("c/1".parse().unwrap())] {
                    let has = kept.iter().any(|row| row.glob.matches(path) && match &row.basis {
                        Basis::Declared { .. } => part.is_none(),
                        Basis::Touched(touched) => touched.worktree == here && touched.part == part,
                    });
                    prop_assert_eq!(at_once.covers_for(part.as_ref(), path, here.as_ref()), has, "{} in {}", path, n);
                }
            }
        }
        for row in &kept {
            prop_assert!(at_once.has(&row.glob));
            let declared = kept.iter().any(|other| {
                other.glob == row.glob && other.basis.kind() == ReservationKind::Declared
            });
            prop_assert_eq!(at_once.declares(&row.glob), declared);
            let mut without = at_once.clone();
            without.remove(&row.glob);
            prop_assert!(!without.has(&row.glob));
            let gone = kept.iter().filter(|other| other.glob == row.glob).count();
            prop_assert_eq!(without.rows().len(), kept.len() - gone);
        }
    }

    /// P3, checked path by path and pair by pair, in both orders.
    #[test]
    fn common_paths_collide_unless_both_were_touched_in_worktrees_known_to_be_two(
        ours in prop::collection::vec(row(), 0..4),
        theirs in prop::collection::vec(row(), 0..4),
        across in prop::sample::select(AcrossWorktrees::ALL.to_vec()),
    ) {
        let excludes = |one: &Reservation, other: &Reservation| match (&one.basis, &other.basis) {
            (Basis::Declared { .. }, _) | (_, Basis::Declared { .. }) => true,
            (Basis::Touched(one), Basis::Touched(other)) => match (&one.worktree, &other.worktree) {
                (Some(one), Some(other)) => one == other || across == AcrossWorktrees::Refuse,
                (None, _) | (_, None) => true,
            },
        };
        let both = |one: &Reservation, other: &Reservation| {
            PATHS.iter().any(|path| one.glob.matches(path) && other.glob.matches(path))
        };
        let expected =
            ours.iter().any(|one| theirs.iter().any(|other| both(one, other) && excludes(one, other)));
        let found = collision(&ours, &theirs, &[], across).unwrap();
        prop_assert_eq!(found.is_some(), expected);
        if let Some(witness) = found {
            let (one, other) = (&ours[witness.left], &theirs[witness.right]);
            prop_assert!(one.glob.matches(&witness.path) && other.glob.matches(&witness.path));
            prop_assert!(collide(one, other, across) && excludes(one, other));
        }
        prop_assert_eq!(collision(&theirs, &ours, &[], across).unwrap().is_some(), expected);
    }

    /// A merge to come is what both touched without excluding one another.
    #[test]
    fn files_touched_in_two_worktrees_are_merges_to_come(
        ours in prop::collection::vec(file(), 0..4),
        theirs in prop::collection::vec(file(), 0..4),
    ) {
        let expected: Vec<&str> = ours
            .iter()
            .filter(|one| theirs.iter().any(|other| {
                one.glob == other.glob
                    && matches!((&one.basis, &other.basis), (Basis::Touched(one), Basis::Touched(other))
                        if one.worktree.is_some() && other.worktree.is_some() && one.worktree != other.worktree)
            }))
            .map(|row| row.glob.as_str())
            .filter(|path| *path != "c/d")
            .collect();
        let shared = [glob("c/*")].into_iter().collect();
        prop_assert_eq!(merges(&ours, &theirs, &shared).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn areas_name_globs_and_forget_those_that_are_gone() {
    let mut areas = Areas::default();
    areas.insert("auth".parse().unwrap(), [glob("src/auth/**"), glob("login.rs")]);
    areas.insert("api".parse().unwrap(), [glob("login.rs")]);
    let scope: Scope = [glob("src/auth/**"), glob("login.rs"), glob("x")].into_iter().collect();
    let rows = Reservations::of(&scope, &areas, None);
    let area = |text: &str| {
        let row = rows.rows().iter().find(|row| row.glob.as_str() == text).unwrap();
        row.basis.area().map(ToString::to_string)
    };
    assert_eq!(area("src/auth/**").as_deref(), Some("auth"));
    assert_eq!(area("login.rs").as_deref(), Some("api"), "the first by name");
    assert_eq!(area("x"), None);
    areas.retain(&[glob("src/auth/**")].into_iter().collect());
    assert_eq!(areas.iter().map(|(area, _)| area.as_str()).collect::<Vec<_>>(), ["auth"]);
    let text = serde_json::to_string(&areas).unwrap();
    assert_eq!(text, r#"{"auth":["src/auth/**"]}"#);
    assert_eq!(serde_json::from_str::<Areas>(&text).unwrap(), areas);
    assert!(serde_json::from_str::<Areas>(r#"{"a b":["x"]}"#).is_err());
}

#[test]
fn worktrees_of_two_machines_are_two() {
    let id = WorktreeId::new("m1", "mark a");
    assert_eq!(id.as_str().len(), WorktreeId::LEN);
    assert_eq!(id.as_str().parse::<WorktreeId>(), Ok(id.clone()));
    assert_ne!(id, WorktreeId::new("m2", "mark a"));
    assert_ne!(id, WorktreeId::new("m1", "mark b"));
    for bad in ["", "0", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33)] {
        assert!(bad.parse::<WorktreeId>().is_err(), "{bad}");
    }
}
