//! Which gates are missing, given any history of judgements.

use proptest::prelude::*;

use super::*;
use crate::ids::Uid;

fn gate(argv: &str) -> Gate {
    Gate {
        key: "tests".parse().unwrap(),
        title: None,
        kind: GateKind::Command,
        stage: Stage::Done,
        command: Some(GateCommand {
            argv: vec![argv.to_owned()],
            env: BTreeSet::new(),
            folder: String::new(),
            timeout_ms: 1_000,
        }),
        tests: Scope::default(),
        by: BTreeSet::new(),
        applies: Applies::default(),
    }
}

fn demand(gate: &Gate, tree: &str) -> Demand {
    Demand {
        gates: vec![gate.clone()],
        known: [gate.key.clone()].into(),
        tree: Some(tree.to_owned()),
        ..Demand::default()
    }
}

fn row(version: u64, gate: &Gate, tree: &str, verdict: Verdict) -> JudgementRow {
    JudgementRow {
        task: Uid(uuid::Uuid::nil()),
        version: Version(version),
        verdict,
        actor: "agent:a".parse().unwrap(),
        at_ms: 0,
        judgement: Judgement {
            gate: gate.key.clone(),
            definition: gate.digest(),
            tree: Some(tree.to_owned()),
            flaky: false,
            run: None,
        },
    }
}

proptest! {
    /// The last judgement of this tree by this definition decides, whatever else was judged, and in whatever order it is read.
    #[test]
    fn the_last_word_on_a_tree_counts(
        history in proptest::collection::vec((0..3_usize, 0..2_usize, any::<bool>()), 0..12),
        reversed in any::<bool>(),
    ) {
        let (trees, gates) = (["a", "b", "c"], [gate("one"), gate("two")]);
        let mut rows: Vec<JudgementRow> = history
            .iter()
            .enumerate()
            .map(|(n, (tree, by, passed))| {
                let verdict = if *passed { Verdict::Passed } else { Verdict::Failed };
                row(n as u64 + 1, &gates[*by], trees[*tree], verdict)
            })
            .collect();
        if reversed {
            rows.reverse();
        }
        let expected = match history.iter().rev().find(|(tree, by, _)| (*tree, *by) == (0, 0)) {
            Some((_, _, true)) => None,
            Some((_, _, false)) => Some(Why::Failed),
            None if history.is_empty() => Some(Why::NotJudged),
            None => Some(Why::Stale),
        };
        let missing = demand(&gates[0], "a").missing(&Facts::default(), &rows);
        prop_assert_eq!(missing.first().map(|missing| missing.why), expected);
    }
}

#[test]
fn a_definition_is_what_is_run_and_not_for_whom() {
    let one = gate("one");
    let titled = Gate {
        title: Some("x".to_owned()),
        applies: Applies { only_named: true, ..Applies::default() },
        ..one.clone()
    };
    assert_eq!(one.digest(), titled.digest());
    assert_ne!(one.digest(), gate("two").digest());
    assert_ne!(one.digest(), Gate { stage: Stage::Land, ..one.clone() }.digest());
}

#[test]
fn a_gate_is_for_tasks_that_fit_all_it_says() {
    let scope = |glob: &str| -> Scope { [glob.parse().unwrap()].into_iter().collect() };
    let facts = Facts { tags: ["big".to_owned()].into(), ..Facts::default() };
    let applies = |applies: Applies| Gate { applies, ..gate("x") };
    let big = applies(Applies { tags: ["big".to_owned()].into(), ..Applies::default() });
    let docs = applies(Applies { paths: scope("docs/**"), ..Applies::default() });
    let both =
        applies(Applies { tags: ["big".to_owned()].into(), paths: scope("docs/**"), ..Applies::default() });
    let named = applies(Applies { only_named: true, ..Applies::default() });
    let files = ["docs/a.md".to_owned()];
    assert!(big.is_for(&facts, ChangedBy::Unknown) && !big.is_for(&Facts::default(), ChangedBy::Unknown));
    assert!(
        docs.is_for(&facts, ChangedBy::Files(&files))
            && !docs.is_for(&facts, ChangedBy::Files(&["src/a".to_owned()]))
    );
    assert!(both.is_for(&facts, ChangedBy::Files(&files)) && !both.is_for(&facts, ChangedBy::Files(&[])));
    // A task that declares nothing may change anything; one that declares something else may not.
    assert!(docs.is_for(&facts, ChangedBy::Declared));
    assert!(!docs.is_for(&Facts { scope: scope("src/**"), ..facts.clone() }, ChangedBy::Declared));
    assert!(!named.is_for(&facts, ChangedBy::Unknown));
    let naming = Facts { gates: ["tests".parse().unwrap()].into(), ..Facts::default() };
    assert!(named.is_for(&naming, ChangedBy::Unknown));
    assert_eq!(
        named.is_for(&Facts { ad_hoc: true, ..naming }, ChangedBy::Unknown),
        named.stage == Stage::Land
    );
}

#[test]
fn a_gate_that_a_task_names_and_nobody_defines_is_missing() {
    let facts = Facts { gates: ["gone".parse().unwrap()].into(), ..Facts::default() };
    let missing = Demand::default().missing(&facts, &[]);
    assert_eq!((missing[0].key.as_str(), missing[0].why), ("gone", Why::Unknown));
}
