//! Every script in `examples/` runs as it stands, in an empty folder.

use std::process::Command;

use crate::support::{ONUS, Ran, Sandbox};

use super::root;

#[test]
fn every_example_runs() {
    let mut scripts: Vec<_> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "sh"))
        .collect();
    scripts.sort();
    let readme = std::fs::read_to_string(root().join("examples/README.md")).unwrap();
    assert!(scripts.len() >= 5, "{scripts:?}");
    for script in scripts {
        let name = script.file_name().unwrap().to_string_lossy().into_owned();
        assert!(readme.contains(&format!("({name})")), "{name} is not in the list");
        let sandbox = Sandbox::empty();
        let folder = std::path::Path::new(ONUS).parent().unwrap().to_string_lossy().into_owned();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command
            .arg(&script)
            .current_dir(sandbox.path())
            .env_clear()
            .env("PATH", path)
            .env("HOME", sandbox.path());
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 0, "{name}\n{}\n{}", ran.stdout, ran.stderr);
        assert!(!ran.stdout.contains("next: onus init"), "{name}: {}", ran.stdout);
    }
}
