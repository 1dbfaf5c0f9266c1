//! How long a lease lasts, key by key.

use super::*;

pub(super) fn lease_ttl() {
    let sandbox = Sandbox::new();
    shared_file(&sandbox, "[lease]\nttl = \"7m\"\n");
    let claimed = sandbox.json(&agent("a"), &["claim", &sandbox.add("x")]).ok().json();
    assert_eq!(claimed["lease"]["ttl_s"], 420);
    assert!((400..=420).contains(&claimed["lease"]["expires_in_s"].as_i64().unwrap()));
}

pub(super) fn lease_max_hold() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("x");
    shared_file(&sandbox, "[lease]\nmax_hold = \"1ms\"\n");
    claim(&sandbox, &agent("a"), &id);
    lapse();
    assert_eq!(sandbox.show(&id)["lease"]["lapsed_by"], "max_hold");
    shared_file(&sandbox, "[lease]\nmax_hold = \"0\"\n");
    let free = sandbox.json(&agent("b"), &["claim", &id]).ok().json();
    assert!(free["lease"]["max_hold_s"].is_null());
}

pub(super) fn lease_stale_after() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("x");
    claim(&sandbox, &human("ann"), &id);
    assert_eq!(sandbox.show(&id)["lease"]["stale"], false);
    shared_file(&sandbox, "[lease]\nstale_after = \"1ms\"\n");
    lapse();
    assert_eq!(sandbox.show(&id)["lease"]["stale"], true);
    let status = sandbox.json(&agent("b"), &["status"]).ok().json();
    assert_eq!(status["stale"][0]["id"], id.as_str());
    // Stale is not lapsed: nobody takes it.
    sandbox.json(&agent("b"), &["claim", &id]).refused(4);
}

pub(super) fn lease_keep() {
    let sandbox = Sandbox::new();
    shared_file(&sandbox, "[lease]\nkeep = \"3m\"\n");
    let id = sandbox.add("x");
    let handed = sandbox.json(&agent("a"), &["handoff", &id, "--to", "agent:b", "--reason", "r"]).ok().json();
    assert!((170..=180).contains(&handed["task"]["kept_for"]["expires_in_s"].as_i64().unwrap()));
}

pub(super) fn lease_stalled_after() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("x");
    claim(&sandbox, &agent("a"), &id);
    lapse();
    assert_eq!(sandbox.show(&id)["lease"]["stalled"], false);
    shared_file(&sandbox, "[lease]\nstalled_after = \"1ms\"\n");
    assert_eq!(sandbox.show(&id)["lease"]["stalled"], true);
    // Stalled is not lapsed: it shows signs of life.
    sandbox.json(&agent("b"), &["claim", &id]).refused(4);
}

/// On a server's store, whether a death that is seen ends a lease before its deadline.
pub(super) fn lease_unique_machines() {
    let sandbox = Sandbox::empty();
    let server = onus_store::conformance::server::Server::shared();
    let name = onus_store::conformance::server::fresh_name();
    for (unique, code) in [("false", 4), ("true", 0)] {
        let on = |who: &As, args: &[&str]| {
            let store = [("ONUS_STORE", server.shared_database()), ("ONUS_PROJECT", &name)];
            json_with(&sandbox, who, &[&store[..], &[("ONUS_LEASE_UNIQUE_MACHINES", unique)]].concat(), args)
        };
        on(&human("ann"), &["init"]).ok();
        let id = on(&human("ann"), &["add", "x"]).ok().json()["id"].as_str().unwrap().to_owned();
        let mut work = Command::new("sleep").arg("600").spawn().unwrap();
        on(&agent("a"), &["claim", &id, "--bind", &work.id().to_string()]).ok();
        work.kill().unwrap();
        work.wait().unwrap();
        assert_eq!(on(&agent("b"), &["claim", &id]).code, code, "{unique}");
    }
}

pub(super) fn endless(sandbox: &Sandbox, who: &str) -> Ran {
    sandbox.json(&agent(who), &["claim", &sandbox.add("x"), "--ttl", "0", "--reason", "r"])
}

pub(super) fn lease_indefinite_per_actor() {
    let sandbox = Sandbox::new();
    endless(&sandbox, "a").ok();
    assert_eq!(endless(&sandbox, "a").refused(6)["code"], "limit");
    shared_file(&sandbox, "[lease]\nindefinite_per_actor = 2\n");
    endless(&sandbox, "a").ok();
    endless(&sandbox, "a").refused(6);
}

pub(super) fn lease_indefinite_per_store() {
    let sandbox = Sandbox::new();
    shared_file(&sandbox, "[lease]\nindefinite_per_store = 1\n");
    endless(&sandbox, "a").ok();
    assert_eq!(endless(&sandbox, "b").refused(6)["code"], "limit");
    shared_file(&sandbox, "[lease]\nindefinite_per_store = 2\n");
    endless(&sandbox, "b").ok();
}
