//! Leases, instances and kept requests.

use onus_core::event::{Body, Draft};
use onus_core::ids::Token;
use onus_core::lease::{EndKind, LapseCause, Process, Pulse};
use onus_core::task::{Facts, State};
use onus_core::text::Field;

use crate::{KeptRequest, KnownInstance, Store, Wanted};

use super::Case;
use super::scribe::{actor, append, append_as, claim, commit, create, end, instance, look, uid};

pub(super) fn cases<S: Store>() -> Vec<Case<S>> {
    vec![
        ("a lease comes back as it was granted", granted),
        ("a lease that ended stays as history, with what its end carried", ended),
        ("a sign of life changes the lease and nothing else", pulse),
        ("a holder's leases are found by actor and instance together", held_by),
        ("the latest lease of a holder on a task is found among many", latest),
        ("a lease that was taken is told to its holder", lost),
        ("leases without a limit are counted, people's apart", indefinite),
        ("a lease that lapsed and came back goes on under its token", revived),
        ("an instance is known by its process", instances),
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
            Draft::new(Body::TaskDone { lease: end() }).token(Token(1)).text(Field::Note, note),
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
    };
    commit(store, |write| write.pulse(uid(1, 1), Token(1), &beat));
    assert_eq!(look(store, |read| read.lease(uid(1, 1), Token(1))).unwrap().pulse, beat);
    assert_eq!(look(store, |read| Ok((read.task(uid(1, 1))?, read.count_events()?))), before);
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
    let mut lost = |name: &str, since: i64| {
        look(store, |read| read.leases_lost_by(&actor(name), &instance("1"), since)).len()
    };
    assert_eq!((lost("h", 0), lost("g", 0), lost("h", i64::MAX)), (1, 0, 0));
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
            domain: now.domain,
            renewals: 4,
            active_s: 42,
            deadline_in_ms: Some(700),
            reserve: false,
        };
        append_as(write, uid(1, 1), Draft::new(renewed).token(Token(1)), ("h", "1"))
    });
    let lease = look(store, |read| read.lease(uid(1, 1), Token(1))).unwrap();
    assert_eq!((lease.ended.clone(), lease.pulse.renewals, lease.active_before_s), (None, 4, 42));
    assert_eq!(lease.pulse.deadline.unwrap().since_ms(&lease.active_from), 700);
    assert_eq!(look(store, |read| read.leases_held_by(&actor("h"), &instance("1"))).len(), 1);
}

fn instances<S: Store>(store: &mut S) {
    let process = |pid| Process {
        machine: "m".into(),
        boot: "b".into(),
        pid_ns: "p".into(),
        time_ns: "t".into(),
        pid,
        start: 5,
    };
    let known = |name: &str, pid| KnownInstance {
        actor: actor("h"),
        instance: instance(name),
        process: Some(process(pid)),
        group: Some(pid + 1),
        seen_at_ms: i64::from(pid),
        wants: Some(Wanted { task: uid(pid, 1), path: "src/a b.rs".into(), at_ms: i64::from(pid) }),
    };
    commit(store, |write| {
        write.put_instance(&known("1", 10))?;
        write.put_instance(&known("2", 20))?;
        write.put_instance(&known("2", 21))
    });
    assert_eq!(look(store, |read| read.instance_of(&process(10))), Some(known("1", 10)));
    assert_eq!(look(store, |read| read.instance_of(&process(21))), Some(known("2", 21)));
    assert_eq!(
        look(store, |read| read.instance_of(&process(20))),
        None,
        "an instance is one process at a time"
    );
    let elsewhere = Process { pid_ns: "q".into(), ..process(10) };
    assert_eq!(look(store, |read| read.instance_of(&elsewhere)), None);
    assert_eq!(look(store, |read| read.instances(10)), [known("2", 21), known("1", 10)]);
    assert_eq!(look(store, |read| read.instance(&actor("h"), &instance("1"))), Some(known("1", 10)));
    assert_eq!(look(store, |read| read.wanting(uid(21, 1), 21)), [known("2", 21)]);
    assert!(look(store, |read| read.wanting(uid(21, 1), 22)).is_empty(), "that was before");
    assert!(look(store, |read| read.wanting(uid(20, 1), 0)).is_empty(), "it wants another path now");
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
            let note = || Draft::new(Body::NoteAdded {}).text(Field::Note, Some("harmless".into()));
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
