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
        claim(write, 2, &["src/auth/login.rs", "srcs/a", "src0", "über/straße.rs"])
    });
    assert_eq!(
        near(store, &["src/auth/login.rs"]),
        ["**/*.md", "src/*/mod.rs", "src/auth/**", "src/auth/login.rs"]
    );
    assert_eq!(
        near(store, &["src/**"]),
        ["**/*.md", "src/*/mod.rs", "src/auth/**", "src/auth/login.rs"],
        "what only begins alike is elsewhere"
    );
    assert_eq!(near(store, &["docs/x", "über/*"]), ["**/*.md", "über/straße.rs"]);
    assert_eq!(near(store, &["**"]).len(), 7, "everything is near everything");
    assert!(near(store, &[]).is_empty());
}

fn grows_and_shrinks<S: Store>(store: &mut S) {
    let token = commit(store, |write| {
        let token = claim(write, 1, &["a"])?;
        append(write, t(1), Draft::new(Body::ScopeAdded { scope: scope(&["b", "a", "c/**"]) }).token(token))?;
        append(write, t(1), Draft::new(Body::ScopeRemoved { scope: scope(&["b"]) }).token(token))?;
        Ok(token)
    });
    assert_eq!(look(store, |read| read.scope_of(t(1), token)), scope(&["a", "c/**"]));
    assert_eq!(look(store, |read| read.scope_len(t(1), token)), 2);
    assert!(near(store, &["b"]).is_empty());
    commit(store, |write| append(write, t(1), Draft::new(Body::TaskDone { lease: end() }).token(token)));
    assert_eq!(look(store, |read| read.scope_of(t(1), token)), scope(&["a", "c/**"]), "the record stays");
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
