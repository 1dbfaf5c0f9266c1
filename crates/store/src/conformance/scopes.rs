//! What leases reserve: found by what may collide with it, and only while the lease has not ended.

use onus_core::event::{Body, Draft};
use onus_core::ids::{Token, Uid};
use onus_core::lease::LapseCause;
use onus_core::scope::{Glob, Scope};
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
    ]
}

fn t(n: u32) -> Uid {
    uid(n, n)
}

fn scope(globs: &[&str]) -> Scope {
    globs.iter().map(|glob| glob.parse::<Glob>().unwrap()).collect()
}

fn claim(write: &mut dyn Write, n: u32, globs: &[&str]) -> Result<Token> {
    create(write, t(n), "t", Facts::default())?;
    let (token, now) = (Token(1), write.now());
    let acquired = Body::LeaseAcquired { grant: grant(&now, None), scope: scope(globs) };
    append(write, t(n), Draft::new(acquired).token(token))?;
    Ok(token)
}

/// The globs that are held near these.
fn near<S: Store>(store: &mut S, globs: &[&str]) -> Vec<String> {
    let found = look(store, |read| read.scopes_near(&scope(globs)));
    let mut globs: Vec<String> = found.into_iter().map(|(_, _, glob)| glob.to_string()).collect();
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
        let more = scope(&["b", "a", "{c,d}/**", "{e,f}/x"]);
        append(write, t(1), Draft::new(Body::ScopeAdded { scope: more }).token(token))?;
        append(write, t(1), Draft::new(Body::ScopeRemoved { scope: scope(&["b", "{e,f}/x"]) }).token(token))?;
        Ok(token)
    });
    assert_eq!(look(store, |read| read.scope_of(t(1), token)), scope(&["a", "{c,d}/**"]));
    assert_eq!(look(store, |read| read.scope_len(t(1), token)), 2);
    assert!(near(store, &["b", "f/x"]).is_empty());
    commit(store, |write| append(write, t(1), Draft::new(Body::TaskDone { lease: end() }).token(token)));
    assert_eq!(look(store, |read| read.scope_of(t(1), token)), scope(&["a", "{c,d}/**"]), "the record stays");
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
            renewals: 1,
            active_s: 1,
            deadline_in_ms: None,
            reserve: false,
        };
        append(write, t(1), Draft::new(renewed).token(token))
    });
    assert_eq!(near(store, &["**"]), ["a", "a", "b"]);
}

fn rebuild_scopes<S: Store>(store: &mut S) {
    commit(store, |write| {
        let token = claim(write, 1, &["a", "b/{c,d}/**"])?;
        append(write, t(1), Draft::new(Body::ScopeAdded { scope: scope(&["x y/ü"]) }).token(token))?;
        claim(write, 2, &["z"])?;
        append(write, t(2), Draft::new(Body::TaskDone { lease: end() }).token(Token(1)))
    });
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, []);
    assert_eq!(near(store, &["**"]), ["a", "b/{c,d}/**", "x y/ü"]);
}
