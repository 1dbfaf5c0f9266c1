//! What leases reserve: found by what may collide with it, and only while the lease has not ended.

use std::collections::BTreeMap;

use onus_core::event::{Body, Draft};
use onus_core::ids::{Token, Uid};
use onus_core::lease::LapseCause;
use onus_core::scope::{Areas, Basis, Glob, Reservation, Reservations, Scope, Touched, WorktreeId};
use onus_core::task::Facts;

use crate::{Result, Store, Write};

use super::Case;
use super::scribe::{append, commit, create, end, grant, look, uid};

pub(super) fn cases<S: Store>() -> Vec<Case<S>> {
    vec![
        ("what may collide is found, whatever lies between", found_near),
        ("a lease's scope grows, shrinks, and is kept when it has ended", grows_and_shrinks),
        ("an ended lease reserves nothing, a revived one its paths again", ends_and_revives),
        ("a rebuild finds the same reservations", rebuild_scopes),
        ("a path of any length is reserved and found", long_paths),
        ("what a reservation is, where it was touched and by whom is kept", bases),
    ]
}

fn t(n: u32) -> Uid {
    uid(n, n)
}

fn scope(globs: &[&str]) -> Scope {
    globs.iter().map(|glob| glob.parse::<Glob>().unwrap()).collect()
}

/// The event by which a lease declares more.
fn declared(globs: &[&str]) -> Body {
    Body::ScopeAdded { scope: scope(globs), areas: Areas::default(), touched: None }
}

fn claim(write: &mut dyn Write, n: u32, globs: &[&str]) -> Result<Token> {
    create(write, t(n), "t", Facts::default())?;
    let (token, now) = (Token(1), write.now());
    let (scope, areas) = (scope(globs), Areas::default());
    let acquired =
        Body::LeaseAcquired { grant: grant(&now, None), scope, areas, touched: None, own_clock: None };
    append(write, t(n), Draft::new(acquired).token(token))?;
    Ok(token)
}

/// The globs held near these.
fn near<S: Store>(store: &mut S, globs: &[&str]) -> Vec<String> {
    let found = look(store, |read| read.scopes_near(&scope(globs)));
    let mut globs: Vec<String> = found.into_iter().map(|(_, _, row)| row.glob.to_string()).collect();
    globs.sort();
    globs
}

fn found_near<S: Store>(store: &mut S) {
    commit(store, |write| {
        claim(write, 1, &["src/auth/**", "src/*/mod.rs", "**/*.md"])?;
        claim(write, 2, &["src/auth/login.rs", "srcs/a", "src0", "über/straße.rs", "{src,tests}/{b,c/d}/x*"])
    });
    let common = ["**/*.md", "src/auth/**", "src/auth/login.rs"];
    assert_eq!(near(store, &["src/auth/login.rs"]), common, "another name is another file");
    assert_eq!(near(store, &["src/auth/mod.rs"]), ["**/*.md", "src/*/mod.rs", "src/auth/**"]);
    assert_eq!(
        near(store, &["src/**"]),
        ["**/*.md", "src/*/mod.rs", "src/auth/**", "src/auth/login.rs", "{src,tests}/{b,c/d}/x*"],
        "what only begins alike is elsewhere"
    );
    assert_eq!(near(store, &["docs/x", "über/*"]), ["**/*.md", "über/straße.rs"]);
    for beside in ["tests/c/d/**", "{a,tests/c}/d/x.rs", "tests/**/xy", "*/b/*"] {
        assert!(near(store, &[beside]).contains(&"{src,tests}/{b,c/d}/x*".to_owned()), "{beside}");
    }
    for elsewhere in ["tests/c/x", "tests/b/y*", "{a,src/c}/x"] {
        assert_eq!(near(store, &[elsewhere]), ["**/*.md"], "{elsewhere}");
    }
    assert_eq!(near(store, &["**"]).len(), 8, "everything is near everything, once");
    assert!(near(store, &[]).is_empty());
}

fn grows_and_shrinks<S: Store>(store: &mut S) {
    let token = commit(store, |write| {
        let token = claim(write, 1, &["a"])?;
        let more = declared(&["b", "a", "{c,d}/**", "{e,f}/x"]);
        append(write, t(1), Draft::new(more).token(token))?;
        append(write, t(1), Draft::new(Body::ScopeRemoved { scope: scope(&["b", "{e,f}/x"]) }).token(token))?;
        Ok(token)
    });
    let reserved = look(store, |read| read.scope_of(t(1), token));
    assert_eq!(reserved.scope(), scope(&["a", "{c,d}/**"]));
    assert_eq!(look(store, |read| read.scope_len(t(1), token)), 2);
    assert!(near(store, &["b", "f/x"]).is_empty());
    commit(store, |write| {
        append(write, t(1), Draft::new(Body::TaskDone { lease: end(), awaits_landing: None }).token(token))
    });
    assert_eq!(look(store, |read| read.scope_of(t(1), token)), reserved, "the record stays");
}

fn ends_and_revives<S: Store>(store: &mut S) {
    let token = commit(store, |write| {
        claim(write, 2, &["a"])?;
        claim(write, 1, &["a", "b"])
    });
    commit(store, |write| {
        let lapsed = Body::LeaseLapsed { cause: LapseCause::Ttl, lease: end() };
        append(write, t(1), Draft::new(lapsed).token(token))
    });
    assert_eq!(near(store, &["**"]), ["a"], "the other's");
    commit(store, |write| {
        let now = write.now();
        let renewed = Body::LeaseRenewed {
            tick_ms: now.tick_ms,
            domain: now.domain,
            renewals: 4,
            deadline_in_ms: None,
            reserve: false,
            own_clock: None,
            process: None,
        };
        append(write, t(1), Draft::new(renewed).token(token))
    });
    assert_eq!(near(store, &["**"]), ["a", "a", "b"]);
}

fn rebuild_scopes<S: Store>(store: &mut S) {
    commit(store, |write| {
        let token = claim(write, 1, &["a", "b/{c,d}/**"])?;
        append(write, t(1), Draft::new(declared(&["x y/ü"])).token(token))?;
        claim(write, 2, &["z"])?;
        append(write, t(2), Draft::new(Body::TaskDone { lease: end(), awaits_landing: None }).token(Token(1)))
    });
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, []);
    assert_eq!(near(store, &["**"]), ["a", "b/{c,d}/**", "x y/ü"]);
}

/// As long as a path may be, of characters that do not compress.
fn long_path(seed: u64) -> String {
    let mut at = seed;
    let mut letter = || {
        at = at.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        char::from(b'a' + u8::try_from((at >> 33) % 26).unwrap())
    };
    let mut path: String = "deep/".to_owned();
    while path.len() < onus_core::scope::MAX_PATH_BYTES - 1 {
        path.push(if path.len().is_multiple_of(250) { '/' } else { letter() });
    }
    path.push('x');
    path
}

fn long_paths<S: Store>(store: &mut S) {
    let (mine, other, special) = (long_path(1), long_path(2), format!("[{}", &long_path(3)[1..]));
    let special = Glob::literal(&special).unwrap();
    commit(store, |write| {
        let token = claim(write, 1, &[&mine, special.as_str()])?;
        append(write, t(1), Draft::new(declared(&[&other, &mine])).token(token))
    });
    assert_eq!(look(store, |read| read.scope_len(t(1), Token(1))), 3);
    assert_eq!(near(store, &[&mine]), [&*mine], "another name in the same folders is another file");
    assert_eq!(near(store, &[special.as_str()]), [special.as_str()]);
    let folder = &mine[..mine.rfind('/').unwrap()];
    assert!(near(store, &[&format!("{}/**", &folder[..490])]).is_empty(), "no folder has this name");
    let short = &mine[..=mine[..1_000].rfind('/').unwrap()];
    assert_eq!(near(store, &[&format!("{short}**")]), [&*mine]);
    let mut all = [mine.clone(), other.clone(), special.to_string()];
    all.sort();
    assert_eq!(near(store, &["**"]), all);
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, []);
    commit(store, |write| {
        append(write, t(1), Draft::new(Body::ScopeRemoved { scope: scope(&[&mine]) }).token(Token(1)))
    });
    assert!(near(store, &[&mine]).is_empty());
}

/// One lease that declares an area and a file, and touches that file in two worktrees and once more by another part.
fn bases<S: Store>(store: &mut S) {
    let here = |own: &str, part: Option<&str>| Touched {
        worktree: Some(WorktreeId::new("machine", own)),
        part: part.map(|part| part.parse().unwrap()),
    };
    let touched = |globs: &[&str], touched: &Touched| Body::ScopeAdded {
        scope: scope(globs),
        areas: Areas::default(),
        touched: Some(touched.clone()),
    };
    let (one, two, nowhere) = (here("one", None), here("two", Some("c/1")), Touched::default());
    let mut areas = Areas::default();
    areas.insert("auth".parse().unwrap(), scope(&["src/{a,b}/**"]).globs().to_vec());
    commit(store, |write| {
        let token = claim(write, 1, &["f"])?;
        let by_area =
            Body::ScopeAdded { scope: scope(&["src/{a,b}/**"]), areas: areas.clone(), touched: None };
        let again = Touched { part: Some("c/2".parse().unwrap()), ..one.clone() };
        let files = [(&["f", "g"] as &[&str], &one), (&["f"], &two), (&["g"], &again), (&["h"], &nowhere)];
        append(write, t(1), Draft::new(by_area).token(token))?;
        for (globs, place) in files {
            append(write, t(1), Draft::new(touched(globs, place)).token(token))?;
        }
        Ok(())
    });
    let files = |store: &mut S, touched: &Touched| {
        let globs = look(store, |read| read.touched_in(touched.worktree.as_ref()));
        globs.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    // It is unknown where it was touched: it may be here.
    assert_eq!(
        (files(store, &one), files(store, &two)),
        (vec!["f".into(), "g".into(), "h".into()], vec!["f".into(), "h".into()])
    );
    assert_eq!(
        (files(store, &here("three", None)), files(store, &nowhere)),
        (vec!["h".into()], vec!["h".into()])
    );
    let row = |glob: &str, basis: Basis| Reservation::new(glob.parse().unwrap(), basis);
    let declared = |glob: &str, area: Option<&str>| {
        row(glob, Basis::Declared { area: area.map(|area| area.parse().unwrap()) })
    };
    let expected: Reservations = [
        declared("f", None),
        declared("src/{a,b}/**", Some("auth")),
        row("f", Basis::Touched(one.clone())),
        row("g", Basis::Touched(one.clone())),
        row("g", Basis::Touched(Touched { part: Some("c/2".parse().unwrap()), ..one })),
        row("f", Basis::Touched(two)),
        row("h", Basis::Touched(nowhere)),
    ]
    .into_iter()
    .collect();
    assert_eq!(expected.rows().len(), 7);
    assert_eq!(look(store, |read| read.scope_of(t(1), Token(1))), expected, "each part has a row of its own");
    assert_eq!(look(store, |read| read.scope_len(t(1), Token(1))), 7);
    let found = look(store, |read| read.scopes_near(&scope(&["f", "src/b/x"])));
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|(_, _, row)| expected.rows().contains(row)), "{found:?}");
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, []);
    commit(store, |write| {
        append(write, t(1), Draft::new(Body::ScopeRemoved { scope: scope(&["f"]) }).token(Token(1)))
    });
    assert!(near(store, &["f"]).is_empty(), "however it came to be reserved");
    assert_eq!(look(store, |read| read.scope_len(t(1), Token(1))), 4);
    // A file is changed, or yielded, in the worktree that it was touched in, and in no other.
    let (one, two) = (WorktreeId::new("machine", "one"), WorktreeId::new("machine", "two"));
    commit(store, |write| {
        for place in ["one", "two"] {
            append(write, t(1), Draft::new(touched(&["k"], &here(place, None))).token(Token(1)))?;
        }
        let changed = Body::ScopeChanged { scope: scope(&["k"]), worktree: Some(one.clone()) };
        append(write, t(1), Draft::new(changed).token(Token(1)))
    });
    let files = |store: &mut S| {
        let rows = look(store, |read| read.scope_of(t(1), Token(1)));
        let of_k = rows.rows().iter().filter(|row| row.glob.as_str() == "k");
        of_k.map(|row| (row.basis.worktree().cloned().unwrap(), row.is_changed)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(files(store), BTreeMap::from([(one.clone(), true), (two.clone(), false)]));
    let found = look(store, |read| read.scopes_near(&scope(&["k"])));
    assert_eq!(found.iter().filter(|(_, _, row)| row.is_changed).count(), 1, "{found:?}");
    commit(store, |write| {
        let yielded = Body::ScopeYielded { scope: scope(&["k"]), worktree: two.clone() };
        append(write, t(1), Draft::new(yielded).token(Token(1)))
    });
    assert_eq!(files(store), BTreeMap::from([(one, true)]));
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, []);
}
