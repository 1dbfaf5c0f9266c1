//! A password is shown by nothing, however the address that has it is spelt.

use onus_store::conformance::server::Server;

use crate::server::project;
use crate::support::{Sandbox, human};

const SECRET: &str = "hunter2";

/// Spellings of an address, right and wrong, with the password where they have one.
fn spellings() -> Vec<String> {
    let server = Server::shared().shared_database();
    let mut all = vec![
        server.replace("onus_owner@", "onus_owner:{S}@"),
        format!("{server}&password={{S}}"),
        "postgres://ann@127.0.0.1:1/onus;password={S}".to_owned(),
    ];
    for scheme in [
        "postgres://",
        "postgresql://",
        "POSTGRES://",
        "Postgres://",
        "postgres:/",
        "postgres:",
        "//",
        "mysql://",
        "jdbc:postgresql://",
        "sqlite:postgres://",
        "http://",
        " postgres://",
        "",
    ] {
        for rest in [
            "ann:{S}@127.0.0.1:1/onus",
            "ann:pw@{S}@127.0.0.1:1/onus",
            "ann:{S}@pw@127.0.0.1:1/onus",
            "ann:{S}/pw@127.0.0.1:1/onus",
            "ann:pw/{S}@127.0.0.1:1/onus",
            "ann:pw?{S}@127.0.0.1:1/onus",
            "ann:pw#{S}@127.0.0.1:1/onus",
            "ann:pw%40{S}@127.0.0.1:1/onus",
            "ann%3A{S}@127.0.0.1:1/onus",
            "ann:{S}@127.0.0.1:1,127.0.0.1:2/onus",
            "ann:{S}@127.0.0.1:{S}/onus",
            "ann:{S}",
            "127.0.0.1:1/onus?user=ann&password={S}",
            "127.0.0.1:1/onus?user=ann&password=x@{S}",
            "127.0.0.1:1/onus?user=ann&PASSWORD={S}",
            "127.0.0.1:1/onus?user=ann&password%3D{S}",
            "ann@127.0.0.1:1/onus?sslmode={S}&password={S}",
            "ann@127.0.0.1:1/onus&password={S}",
            "ann:{S}@%2Fno%2Fsuch%2Ffolder/onus",
            "/onus?host=/no/such/folder&user=ann&password={S}",
            "ann:{S}@no.such.host.invalid/onus",
            "ann:{S}@127.0.0.1:1/onus?sslmode=verify-full&sslrootcert=/no/such/file",
        ] {
            all.push(format!("{scheme}{rest}"));
        }
    }
    all.extend(
        [
            "host=127.0.0.1 user=ann password={S}",
            "host=127.0.0.1 user=ann password = '{S}'",
            "password={S} host=127.0.0.1",
            "PASSWORD={S}",
            "./host=127.0.0.1 password={S}",
            "/run/postgresql?password={S}",
            "ann:{S}@127.0.0.1",
            "/ann:{S}@127.0.0.1/onus",
            "postgres://ann:\t{S}@127.0.0.1/onus",
            "postgres://ann:\u{1b}{S}@127.0.0.1/onus",
        ]
        .map(str::to_owned),
    );
    all.into_iter().map(|text| text.replace("{S}", SECRET)).collect()
}

#[track_caller]
fn says_nothing(sandbox: &Sandbox, address: &str, env: &[(&str, &str)], args: &[&str]) {
    for json in [&[][..], &["--json"]] {
        let output = sandbox.command(&human("ann")).envs(env.iter().copied()).args(args).args(json).output();
        let output = output.unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!said.contains(SECRET), "{address:?}: {args:?}: {said}");
    }
}

#[test]
fn a_password_is_never_shown_whatever_the_spelling() {
    let sandbox = project();
    let file = sandbox.path().join("home/.config/onus/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    for (n, address) in spellings().iter().enumerate() {
        let env = [("ONUS_STORE", address.as_str()), ("ONUS_STORE_WAIT", "50ms")];
        // Each through every command would take long: all commands get many of them.
        let commands: [&[&str]; 8] = [
            &["config"],
            &["config", "get", "store.path"],
            &["list"],
            &["doctor"],
            &["init"],
            &["whoami"],
            &["add", "x"],
            &["log"],
        ];
        for args in &commands[..2] {
            says_nothing(&sandbox, address, &env, args);
        }
        says_nothing(&sandbox, address, &env, commands[2 + n % 6]);
        // As an argument, also where there is none, or as something else.
        let arguments: [&[&str]; 7] = [
            &["store", "migrate", address],
            &["store", "copy", address, "./copy.db"],
            &["store", "copy", "./none.db", address],
            &["store", "copy", address, address, address],
            &["init", address],
            &["init", "--prefix", address],
            &[address],
        ];
        // What does not look like an address is none where none is asked for.
        let last = if onus_store::may_hold_a_password(address) { 7 } else { 3 };
        says_nothing(&sandbox, address, &[("ONUS_STORE_WAIT", "50ms")], arguments[n % last]);
        // In the user's own file.
        let text = address.replace('\t', "\\t").replace('\u{1b}', "\\u001b");
        std::fs::write(&file, format!("[store]\npath = \"{text}\"\nwait = \"50ms\"\n")).unwrap();
        let clear = [("ONUS_STORE", "")];
        says_nothing(&sandbox, address, &clear, commands[n % 8]);
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_password_comes_into_no_record() {
    let mut sandbox = project();
    sandbox.by(&Server::shared().shared_database().replace("onus_owner@", &format!("onus_owner:{SECRET}@")));
    sandbox.json(&human("ann"), &["add", "x"]).ok();
    sandbox.json(&human("ann"), &["run", "1", "--", "true"]).ok();
    for args in
        [&["log"][..], &["show", "1"], &["doctor"], &["ledger", "export"], &["config"], &["prime", "--full"]]
    {
        says_nothing(&sandbox, "the record", &[], args);
    }
}
