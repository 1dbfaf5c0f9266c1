//! Leases, instances and kept requests.

use onus_core::event::{Body, Draft};
use onus_core::ids::{Token, Version};
use onus_core::lease::{EndKind, LapseCause, Process, Pulse};
use onus_core::scope::WorktreeId;
use onus_core::sight::Mark;
use onus_core::stretch::{Work, Worked};
use onus_core::task::{Facts, NoteKind, State};
use onus_core::text::Field;
use onus_core::time::Tick;

use crate::{
    KeptRequest, KnownInstance, Loss, NoteLeft, PendingKind, PendingNotice, Shown, Store, Wanted, Wish,
};

use super::Case;
use super::scribe::{
    actor, append, append_as, claim, commit, create, end, instance, look, some_stretches, some_work, uid,
};

pub(super) fn cases<S: Store>() -> Vec<Case<S>> {
    vec![
        ("a lease comes back as it was granted", granted),
        ("a lease that ended stays as history, with what its end carried", ended),
        ("a sign of life changes the lease and nothing else", pulse),
        ("work that rides on an event waits no more and is counted once", recorded_work),
        ("signs of life of many leases are each its own", pulses),
        ("a holder's leases are found by actor and instance together", held_by),
        ("the latest lease of a holder on a task is found among many", latest),
        ("a loss is remembered until its holder was told", lost),
        ("the parts of a conversation are found, and nobody else", parts),
        ("a notice waits for its reader, and for nobody else", noticed),
        ("leases without a limit are counted, people's apart", indefinite),
        ("a lease that lapsed and came back goes on under its token", revived),
        ("a lease's work moves to another worktree", attached),
        ("an instance is known by its process", instances),
        ("a command ends with what concerns its caller, in one question", closing),
        ("a request is kept for its actor and key alone", requests),
        ("erasing a text forgets what it could be guessed from", erased_requests),
    ]
}

fn granted<S: Store>(store: &mut S) {
    commit(store, |write| create(write, uid(1, 1), "t", Facts::default()));
    let token = commit(store, |write| claim(write, uid(1, 1), ("h", "1"), Some(5_000)));
    assert_eq!(token, Token(1));
    let task = look(store, |read| read.task(uid(1, 1))).unwrap();
    assert_eq!((task.state, task.token, task.leased), (State::InProgress, token, true));
    let lease = look(store, |read| read.lease(uid(1, 1), token)).unwrap();
    assert_eq!((lease.actor.clone(), lease.instance.clone()), (actor("h"), instance("1")));
    assert_eq!(lease.ended, None);
    let deadline = lease.pulse.deadline.clone().unwrap();
    assert_eq!(deadline.since_ms(&lease.acquired()), 5_000);
    assert_eq!(lease.grant.worktree.as_deref(), Some("/somewhere/else"));
    assert_eq!(look(store, |read| read.lease(uid(1, 1), Token(2))), None);
}

fn ended<S: Store>(store: &mut S) {
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        claim(write, uid(1, 1), ("h", "1"), Some(5_000))?;
        let note = Some("done".to_owned());
        append(
            write,
            uid(1, 1),
            Draft::new(Body::TaskDone { lease: end(), awaits_landing: None })
                .token(Token(1))
                .text(Field::Note, note),
        )
    });
    let lease = look(store, |read| read.lease(uid(1, 1), Token(1))).unwrap();
    let how = lease.ended.clone().unwrap();
    assert_eq!((how.how, how.version.0, how.end), (EndKind::Done, 3, end()));
    assert_eq!((lease.pulse.renewals, lease.pulse.deadline), (3, None));
    let task = look(store, |read| read.task(uid(1, 1))).unwrap();
    assert_eq!((task.state, task.leased, task.token), (State::Done, false, Token(1)));
    assert!(look(store, |read| read.open_leases(10)).is_empty());
}

fn pulse<S: Store>(store: &mut S) {
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        claim(write, uid(1, 1), ("h", "1"), Some(5_000))
    });
    let before = look(store, |read| Ok((read.task(uid(1, 1))?, read.count_events()?)));
    let now = look(store, |read| Ok(read.now()));
    let beat = Pulse {
        last: now.clone(),
        progress: now.plus(-7),
        renewals: 9,
        deadline: Some(now.plus(9_999)),
        resting: true,
        work: some_work(&now),
    };
    commit(store, |write| write.pulse(&[(uid(1, 1), Token(1), beat.clone())]));
    assert_eq!(look(store, |read| read.lease(uid(1, 1), Token(1))).unwrap().pulse, beat);
    assert_eq!(look(store, |read| Ok((read.task(uid(1, 1))?, read.count_events()?))), before);
}

fn recorded_work<S: Store>(store: &mut S) {
    let now = look(store, |read| Ok(read.now()));
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        claim(write, uid(1, 1), ("h", "1"), Some(5_000))?;
        let lease = write.lease(uid(1, 1), Token(1))?.expect("it was granted");
        let work = Work { waited_ms: 77, ..some_work(&now) };
        write.pulse(&[(uid(1, 1), Token(1), Pulse { renewals: 1, work, ..lease.pulse })])
    });
    let note = || {
        Draft::new(Body::NoteAdded { kind: NoteKind::Progress, link: None })
            .text(Field::Note, Some("n".to_owned()))
            .token(Token(1))
    };
    let told = Draft { stretches: some_stretches(&now), waited_ms: 77, ..note() };
    commit(store, |write| append_as(write, uid(1, 1), told.clone(), ("h", "1")));
    let lease = look(store, |read| read.lease(uid(1, 1), Token(1))).unwrap();
    assert_eq!(lease.worked, Worked { active_ms: 642, stretches: 2, waited_ms: 77 });
    assert_eq!(lease.pulse.work, Work { waiting: Vec::new(), ..some_work(&now) }, "the open one goes on");
    let ended = Draft::new(Body::TaskDone { lease: end(), awaits_landing: None }).token(Token(1));
    let last = some_stretches(&now)[..1].to_vec();
    let task = commit(store, |write| {
        append_as(write, uid(1, 1), Draft { stretches: last.clone(), ..ended.clone() }, ("h", "1"))
    });
    assert_eq!(task.effort_ms, 1_242);
    let lease = look(store, |read| read.lease(uid(1, 1), Token(1))).unwrap();
    assert_eq!(
        (lease.worked, lease.pulse.work),
        (Worked { active_ms: 1_242, stretches: 3, waited_ms: 77 }, Work::default())
    );
    assert_eq!(lease.ended.unwrap().end.active_ms, 1_242);
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, Vec::new());
}

fn pulses<S: Store>(store: &mut S) {
    let tasks = [uid(1, 1), uid(2, 2), uid(3, 3), uid(4, 4)];
    commit(store, |write| {
        tasks.iter().try_for_each(|task| {
            create(write, *task, "t", Facts::default())?;
            claim(write, *task, ("h", "1"), Some(5_000)).map(drop)
        })
    });
    let before = tasks.map(|task| look(store, |read| read.lease(task, Token(1))).unwrap().pulse);
    let beat = |at: usize, deadline_in_ms: Option<i64>| {
        let (pulse, later_ms) = (&before[at], 10 * at as i64);
        Pulse {
            last: pulse.last.plus(later_ms),
            renewals: 7 + at as u64,
            deadline: deadline_in_ms.map(|ms| pulse.last.plus(ms)),
            resting: at == 1,
            ..pulse.clone()
        }
    };
    // Not in the order of their keys, one of them without a deadline, and one without a sign of life.
    let beats = [(2, beat(2, Some(70_000))), (0, beat(0, None)), (1, beat(1, Some(90_000)))];
    let signs = beats.clone().map(|(at, pulse)| (tasks[at], Token(1), pulse));
    commit(store, |write| write.pulse(&signs));
    let mut expected = before.clone();
    for (at, pulse) in beats {
        expected[at] = pulse;
    }
    let after = tasks.map(|task| look(store, |read| read.lease(task, Token(1))).unwrap().pulse);
    assert_eq!(after, expected);
    commit(store, |write| write.pulse(&[]));
    assert_eq!(tasks.map(|task| look(store, |read| read.lease(task, Token(1))).unwrap().pulse), expected);
}

fn held_by<S: Store>(store: &mut S) {
    commit(store, |write| {
        for (i, by) in [(1, ("h", "1")), (2, ("h", "2")), (3, ("h", "1")), (4, ("g", "1"))] {
            create(write, uid(i, i), "t", Facts::default())?;
            claim(write, uid(i, i), by, None)?;
        }
        append_as(
            write,
            uid(3, 3),
            Draft::new(Body::LeaseReleased { lease: end() }).token(Token(1)),
            ("h", "1"),
        )
    });
    let mut tasks = |name: &str, of: &str| {
        let leases = look(store, |read| read.leases_held_by(&actor(name), &instance(of)));
        leases.iter().map(|lease| lease.task).collect::<Vec<_>>()
    };
    assert_eq!(tasks("h", "1"), [uid(1, 1)]);
    assert_eq!(tasks("h", "2"), [uid(2, 2)]);
    assert_eq!(tasks("x", "1"), []);
    assert_eq!(look(store, |read| read.open_leases(10)).len(), 3);
    let mut ended = |name: &str, of: &str, since_ms: i64| {
        let leases = look(store, |read| read.leases_ended_by(&actor(name), &instance(of), since_ms));
        leases.iter().map(|lease| lease.task).collect::<Vec<_>>()
    };
    assert_eq!(ended("h", "1", 0), [uid(3, 3)]);
    assert_eq!((ended("h", "2", 0), ended("g", "1", 0), ended("h", "1", i64::MAX)), (vec![], vec![], vec![]));
}

fn latest<S: Store>(store: &mut S) {
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        for round in 0..6 {
            let by = if round % 2 == 0 { ("h", "1") } else { ("g", "1") };
            let token = claim(write, uid(1, 1), by, None)?;
            append_as(write, uid(1, 1), Draft::new(Body::LeaseReleased { lease: end() }).token(token), by)?;
        }
        Ok(())
    });
    let mut token = |name: &str| {
        look(store, |read| read.latest_lease_of(uid(1, 1), &actor(name), &instance("1")))
            .map(|lease| lease.token.0)
    };
    assert_eq!((token("h"), token("g"), token("x")), (Some(5), Some(6), None));
    let mut above =
        |at: u64, name: &str| look(store, |read| read.held_above(uid(1, 1), Token(at), &actor(name)));
    assert!(above(4, "h") && !above(5, "h") && above(5, "g") && !above(0, "x"));
}

fn lost<S: Store>(store: &mut S) {
    let taken = || Body::LeaseTakenOver { cause: LapseCause::Ttl, lease: end() };
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        claim(write, uid(1, 1), ("h", "1"), Some(1))?;
        append_as(write, uid(1, 1), Draft::new(taken()).token(Token(1)), ("g", "1"))?;
        claim(write, uid(1, 1), ("g", "1"), None)
    });
    fn lost<S: Store>(store: &mut S, name: &str) -> Vec<Token> {
        let leases = look(store, |read| read.leases_lost_by(&actor(name), &instance("1")));
        leases.into_iter().map(|lease| lease.token).collect()
    }
    assert_eq!(lost(store, "h"), [], "whether it was lost is not for the store to say");
    let loss = Loss { actor: actor("h"), instance: instance("1"), task: uid(1, 1), token: Token(1) };
    // However often it is recorded, it is one loss.
    commit(store, |write| write.put_loss(&loss));
    commit(store, |write| write.put_loss(&loss));
    assert_eq!((lost(store, "h"), lost(store, "g")), (vec![Token(1)], vec![]));
    assert_eq!(look(store, |read| read.losses()), std::slice::from_ref(&loss));
    // Not derived from the ledger: a rebuild leaves it alone, and finds nothing to change.
    assert_eq!(store.rebuild(&mut |_| {}).unwrap().changed, []);
    assert_eq!(lost(store, "h"), [Token(1)]);
    commit(store, |write| write.drop_loss(loss.task, loss.token));
    assert_eq!((lost(store, "h"), look(store, |read| read.losses())), (vec![], vec![]));
    // Of very many, only some are reported at a time.
    commit(store, |write| {
        (1..=50).try_for_each(|token| {
            let (task, token) = (uid(1, 1), Token(token));
            if token > Token(2) {
                append_as(write, task, Draft::new(taken()).token(Token(token.0 - 1)), ("x", "1"))?;
                claim(write, task, ("h", "1"), Some(1))?;
            }
            write.put_loss(&Loss { task, token, ..loss.clone() })
        })
    });
    assert_eq!(lost(store, "h").len(), 20);
}

fn parts<S: Store>(store: &mut S) {
    commit(store, |write| {
        for name in ["c", "c/1", "c/2", "c/ü/3", "c-1/1", "c0", "c00/1", "d/1"] {
            let known = KnownInstance::seen(actor("h"), instance(name), 1);
            write.put_instance(&KnownInstance { ended_at_ms: (name == "c/2").then_some(5), ..known })?;
        }
        write.put_instance(&KnownInstance::seen(actor("g"), instance("c/4"), 1))
    });
    let found = look(store, |read| read.running_parts(&actor("h"), &instance("c")));
    let names: Vec<&str> = found.iter().map(|known| known.instance.as_str()).collect();
    assert_eq!(names, ["c/1", "c/ü/3"]);
    assert_eq!(look(store, |read| read.running_parts(&actor("h"), &instance("e"))), []);
}

fn noticed<S: Store>(store: &mut S) {
    commit(store, |write| {
        for n in 1..=2 {
            create(write, uid(n, 1), "t", Facts::default())?;
            claim(write, uid(n, 1), ("h", &n.to_string()), Some(5_000))?;
        }
        Ok(())
    });
    let notice = |n: u32, path: &str| PendingNotice {
        actor: actor("h"),
        instance: instance(&n.to_string()),
        task: uid(n, 1),
        token: Token(1),
        kind: PendingKind::Merge,
        path: path.to_owned(),
        by: Some((actor("g"), instance("7"))),
        by_task: Some(uid(9, 1)),
        worktree: Some("/a b/ü".to_owned()),
        branch: None,
        at_ms: 5,
    };
    let waiting = |store: &mut S, own: &str| {
        look(store, |read| Ok(read.closing(&actor("h"), &instance(own), None, None, &[])?.notices))
    };
    // However often it is recorded, it is one notice.
    commit(store, |write| write.put_notice(&notice(1, "src/a b.rs")));
    let later = PendingNotice { at_ms: 6, ..notice(1, "src/a b.rs") };
    commit(store, |write| write.put_notice(&later));
    commit(store, |write| {
        write.put_notice(&PendingNotice { at_ms: 4, branch: Some("x".into()), ..notice(1, "b") })
    });
    let older = PendingNotice { at_ms: 4, branch: Some("x".into()), ..notice(1, "b") };
    assert_eq!(waiting(store, "1"), [older.clone(), notice(1, "src/a b.rs")], "the oldest first");
    assert_eq!((waiting(store, "2"), waiting(store, "3")), (vec![], vec![]));
    assert_eq!(look(store, |read| read.notices_for(&actor("h"), &instance("1"))).len(), 2);
    // Not derived from the ledger: a rebuild leaves it alone.
    assert_eq!(store.rebuild(&mut |_| {}).unwrap().changed, []);
    commit(store, |write| write.drop_notice(&older));
    assert_eq!(look(store, |read| read.notices()), [notice(1, "src/a b.rs")]);
    // Beyond what anybody reads, nothing is kept.
    for at in 0..220 {
        commit(store, |write| write.put_notice(&notice(2, &format!("{at:03}"))));
    }
    assert_eq!(waiting(store, "2").len(), 200);
    // A file changed by somebody other than its holder is news for both, and it may be unknown by whom it was
    // changed.
    let stray = |reader: &str, by: Option<&str>| PendingNotice {
        actor: actor(reader),
        kind: PendingKind::Changed,
        by: by.map(|by| (actor(by), instance("1"))),
        by_task: None,
        worktree: None,
        ..notice(1, "d")
    };
    let strays = [stray("h", None), stray("h", Some("w")), stray("w", Some("w"))];
    commit(store, |write| strays.iter().try_for_each(|stray| write.put_notice(stray)));
    assert_eq!(waiting(store, "1"), [strays[0].clone(), strays[1].clone(), notice(1, "src/a b.rs")]);
    assert_eq!(look(store, |read| read.notices_for(&actor("w"), &instance("1"))), strays[2..]);
    assert_eq!(strays.each_ref().map(PendingNotice::is_own), [false, false, true]);
    commit(store, |write| strays[1..].iter().try_for_each(|stray| write.drop_notice(stray)));
    assert_eq!(waiting(store, "1"), [strays[0].clone(), notice(1, "src/a b.rs")]);
    commit(store, |write| write.drop_notice(&strays[0]));
    // Its holder is told with the answer that ends the lease. Later it is dropped.
    commit(store, |write| {
        append_as(
            write,
            uid(2, 1),
            Draft::new(Body::LeaseReleased { lease: end() }).token(Token(1)),
            ("h", "2"),
        )
    });
    assert_eq!(waiting(store, "2").len(), 200);
    commit(store, |write| write.put_notice(&notice(1, "c")));
    assert_eq!(waiting(store, "2"), []);
    let kept: Vec<String> =
        look(store, |read| read.notices()).into_iter().map(|notice| notice.path).collect();
    assert_eq!(kept, ["c", "src/a b.rs"]);
}

fn indefinite<S: Store>(store: &mut S) {
    commit(store, |write| {
        for (i, by, ttl_ms) in
            [(1, ("h", "1"), None), (2, ("h", "2"), None), (3, ("g", "1"), None), (4, ("h", "1"), Some(5))]
        {
            create(write, uid(i, i), "t", Facts::default())?;
            claim(write, uid(i, i), by, ttl_ms)?;
        }
        Ok(())
    });
    assert_eq!(look(store, |read| read.indefinite_leases(&actor("h"))), (2, 3));
}

fn revived<S: Store>(store: &mut S) {
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        claim(write, uid(1, 1), ("h", "1"), Some(5))?;
        let lapsed = Body::LeaseLapsed { cause: LapseCause::Ttl, lease: end() };
        append(write, uid(1, 1), Draft::new(lapsed).token(Token(1)))?;
        let now = write.now();
        let renewed = Body::LeaseRenewed {
            tick_ms: now.tick_ms,
            domain: now.domain.clone(),
            renewals: 4,
            deadline_in_ms: Some(700),
            reserve: false,
            own_clock: None,
            process: Some(process(8)),
        };
        let stretches = some_stretches(&now);
        append_as(write, uid(1, 1), Draft { stretches, ..Draft::new(renewed).token(Token(1)) }, ("h", "1"))
    });
    let lease = look(store, |read| read.lease(uid(1, 1), Token(1))).unwrap();
    assert_eq!((lease.ended.clone(), lease.pulse.renewals, lease.worked.active_ms), (None, 4, 642));
    assert_eq!(lease.pulse.deadline.unwrap().since_ms(&lease.pulse.last), 700);
    assert_eq!(lease.pulse.work.open.unwrap().own, Tick::of(&lease.pulse.last));
    assert_eq!(lease.grant.process, Some(process(8)), "it is bound to what its holder came back in");
    assert_eq!(look(store, |read| read.leases_held_by(&actor("h"), &instance("1"))).len(), 1);
}

fn attached<S: Store>(store: &mut S) {
    let id = WorktreeId::new("machine", "one");
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        claim(write, uid(1, 1), ("h", "1"), Some(5))?;
        let attached = Body::LeaseAttached {
            worktree_id: Some(id.clone()),
            worktree: "/w/t".to_owned(),
            branch: Some("onus/1".to_owned()),
        };
        append_as(write, uid(1, 1), Draft::new(attached).token(Token(1)), ("h", "1"))
    });
    let grant = look(store, |read| read.lease(uid(1, 1), Token(1))).unwrap().grant;
    assert_eq!((grant.worktree_id.as_ref(), grant.worktree.as_deref()), (Some(&id), Some("/w/t")));
    assert_eq!(grant.branch.as_deref(), Some("onus/1"));
    let tokens = |store: &mut S, id: &WorktreeId| {
        let leases = look(store, |read| read.leases_in(id));
        leases.into_iter().map(|lease| (lease.task, lease.token)).collect::<Vec<_>>()
    };
    assert_eq!(tokens(store, &id), [(uid(1, 1), Token(1))]);
    assert_eq!(tokens(store, &WorktreeId::new("machine", "two")), []);
    commit(store, |write| {
        append_as(
            write,
            uid(1, 1),
            Draft::new(Body::LeaseReleased { lease: end() }).token(Token(1)),
            ("h", "1"),
        )
    });
    assert_eq!(tokens(store, &id), [], "it has ended");
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, []);
}

fn process(pid: u32) -> Process {
    Process {
        machine: "m".into(),
        boot: "b".into(),
        pid_ns: "p".into(),
        time_ns: "t".into(),
        pid,
        start: 5,
        unique: false,
    }
}

fn instances<S: Store>(store: &mut S) {
    let known = |name: &str, pid| KnownInstance {
        actor: actor("h"),
        instance: instance(name),
        process: Some(process(pid)),
        group: Some(pid + 1),
        seen_at_ms: i64::from(pid),
        in_turn: pid % 2 == 1,
        wants: Some(Wanted {
            task: uid(pid, 1),
            path: Some("src/a b.rs".into()),
            worktree: (pid % 2 == 0).then(|| WorktreeId::new("m", "w")),
            at_ms: i64::from(pid),
        }),
        registered_at_ms: Some(i64::from(pid)),
        ended_at_ms: None,
        read: (pid % 2 == 1).then(|| format!("{{\"offset\":{pid}}}")),
    };
    let of = |store: &mut S, process: &Process| look(store, |read| read.instances_of(process, 3));
    commit(store, |write| {
        write.put_instance(&known("1", 10))?;
        write.put_instance(&known("2", 20))?;
        write.put_instance(&known("2", 21))
    });
    assert_eq!(of(store, &process(10)), [known("1", 10)]);
    assert_eq!(of(store, &process(21)), [known("2", 21)]);
    assert_eq!(of(store, &process(20)), [], "an instance is one process at a time");
    let elsewhere = Process { pid_ns: "q".into(), ..process(10) };
    assert_eq!(of(store, &elsewhere), []);
    // If something is unknown, two processes cannot be known to be the same, and the record says so.
    let hidden =
        KnownInstance { process: Some(Process { boot: Mark::UNKNOWN, ..process(30) }), ..known("3", 30) };
    commit(store, |write| write.put_instance(&hidden));
    assert_eq!(look(store, |read| read.instance(&actor("h"), &instance("3"))), Some(hidden.clone()));
    assert_eq!(of(store, hidden.process.as_ref().unwrap()), []);
    let gone = KnownInstance { process: None, seen_at_ms: 0, wants: None, ..hidden };
    commit(store, |write| write.put_instance(&gone));
    assert_eq!(look(store, |read| read.instances(10)), [known("2", 21), known("1", 10), gone]);
    assert_eq!(look(store, |read| read.instance(&actor("h"), &instance("1"))), Some(known("1", 10)));
    several_conversations_of_one_process(store, &known("a", 40));
}

/// One process may run several instances: none displaces another, those that have not ended come first, and
/// among these the one registered last.
fn several_conversations_of_one_process<S: Store>(store: &mut S, first: &KnownInstance) {
    let also = |name: &str, registered_at_ms, ended_at_ms| KnownInstance {
        instance: instance(name),
        registered_at_ms,
        ended_at_ms,
        ..first.clone()
    };
    let (early, ended) = (also("e", Some(7), None), also("z", Some(90), Some(91)));
    let (late, unknown) = (also("l", Some(80), None), also("u", None, None));
    commit(store, |write| {
        [first, &early, &ended, &late, &unknown].into_iter().try_for_each(|known| write.put_instance(known))
    });
    let Some(process) = &first.process else { return };
    let names = |store: &mut S, limit| {
        let known = look(store, |read| read.instances_of(process, limit));
        known.iter().map(|known| known.instance.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(store, 9), ["l", "a", "e", "u", "z"]);
    assert_eq!(names(store, 2), ["l", "a"]);
    assert_eq!(look(store, |read| read.instance(&actor("h"), &instance("z"))), Some(ended.clone()));
    // It continues.
    commit(store, |write| write.put_instance(&KnownInstance { ended_at_ms: None, ..ended.clone() }));
    assert_eq!(names(store, 1), ["z"]);
}

fn closing<S: Store>(store: &mut S) {
    let note = |text: &str| {
        Draft::new(Body::NoteAdded { kind: NoteKind::Progress, link: None })
            .text(Field::Note, Some(text.to_owned()))
    };
    let acquired_at_ms = commit(store, |write| {
        for n in 1..=3 {
            create(write, uid(n, 1), "t", Facts::default())?;
        }
        claim(write, uid(1, 1), ("h", "1"), Some(5_000))?;
        claim(write, uid(2, 1), ("h", "2"), Some(5_000))?;
        append_as(write, uid(1, 1), note("from another"), ("other", "1"))?;
        append_as(write, uid(1, 1), note("its own"), ("h", "1"))?;
        append_as(write, uid(2, 1), note("on a task of another instance"), ("other", "1"))?;
        append_as(write, uid(3, 1), note("on a task that nobody holds"), ("other", "1"))?;
        Ok(write.lease(uid(1, 1), Token(1))?.map(|lease| lease.acquired_at_ms).unwrap_or_default())
    });
    let wanting = |name: &str, task, at_ms| KnownInstance {
        wants: Some(Wanted { task, path: Some("src/a b.rs".into()), worktree: None, at_ms }),
        ..KnownInstance::seen(actor("w"), instance(name), 0)
    };
    commit(store, |write| {
        write.put_instance(&wanting("early", uid(1, 1), acquired_at_ms - 1))?;
        write.put_instance(&wanting("now", uid(1, 1), acquired_at_ms))?;
        write.put_instance(&wanting("elsewhere", uid(2, 1), acquired_at_ms))?;
        write.put_loss(&Loss { actor: actor("h"), instance: instance("1"), task: uid(2, 1), token: Token(1) })
    });
    let shown = Shown { task: uid(1, 1), versions: vec![Version(1), Version(3)] };
    let rows = look(store, |read| read.closing(&actor("h"), &instance("1"), Some(0), Some(&shown), &[]));
    let of = |leases: &[onus_core::lease::Lease]| leases.iter().map(|lease| lease.task).collect::<Vec<_>>();
    assert_eq!((of(&rows.held), of(&rows.lost)), (vec![uid(1, 1)], vec![uid(2, 1)]));
    assert_eq!(rows.notes, [NoteLeft { task: uid(1, 1), actor: actor("other"), yielded: None }]);
    assert_eq!(rows.wishes, [Wish { task: uid(1, 1), actor: actor("w"), path: Some("src/a b.rs".into()) }]);
    let details = rows.details.unwrap();
    let texts: Vec<&str> = details.texts.iter().map(|stored| stored.text.as_str()).collect();
    assert_eq!((texts, details.needs), (vec!["t", "from another"], vec![]));
    let later = look(store, |read| {
        read.closing(&actor("h"), &instance("1"), Some(acquired_at_ms + 1_000_000), None, &[])
    });
    assert!(later.notes.is_empty() && later.wishes.is_empty(), "that was before");
    assert_eq!((of(&later.held), later.details), (vec![uid(1, 1)], None));
    let never_seen = look(store, |read| read.closing(&actor("h"), &instance("1"), None, None, &[]));
    assert!(never_seen.notes.is_empty() && never_seen.wishes.is_empty(), "nothing is news to it");
}

fn request(digest: Option<&str>) -> KeptRequest {
    KeptRequest {
        digest: digest.map(str::to_owned),
        salt: [3; 16],
        verb: "claim".into(),
        task: Some(uid(1, 1)),
        token: Some(Token(2)),
        at_ms: 77,
    }
}

fn requests<S: Store>(store: &mut S) {
    commit(store, |write| write.keep_request(&actor("h"), "k", &request(Some("d"))));
    assert_eq!(look(store, |read| read.request(&actor("h"), "k")), Some(request(Some("d"))));
    assert_eq!(look(store, |read| read.request(&actor("g"), "k")), None);
    assert_eq!(look(store, |read| read.request(&actor("h"), "l")), None);
}

fn erased_requests<S: Store>(store: &mut S) {
    let (stream, version) = (uid(1, 1), onus_core::ids::Version(1));
    let written = commit(store, |write| create(write, stream, "secret", Facts::default())).updated_at_ms;
    // Another event, at another time.
    let later = loop {
        if look(store, |read| Ok(read.now())).wall_ms > written {
            let note = || {
                Draft::new(Body::NoteAdded { kind: NoteKind::Progress, link: None })
                    .text(Field::Note, Some("harmless".into()))
            };
            break commit(store, |write| append(write, stream, note())).updated_at_ms;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    commit(store, |write| {
        for (key, at_ms) in [("wrote it", written), ("wrote another", later), ("wrote nothing", written - 5)]
        {
            write.keep_request(&actor("h"), key, &KeptRequest { at_ms, ..request(Some("d")) })?;
        }
        let fields = vec![Field::Title];
        append(write, stream, Draft::new(Body::TextRedacted { version, fields }))?;
        write.erase(onus_core::text::TextKey { stream, version, field: Field::Title })
    });
    let mut digest = |key: &str| look(store, |read| read.request(&actor("h"), key)).unwrap().digest;
    assert_eq!(digest("wrote it"), None);
    assert_eq!(digest("wrote nothing"), None, "it may have asked with the same words");
    assert_eq!(digest("wrote another"), Some("d".to_owned()));
}
