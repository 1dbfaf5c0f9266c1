//! What files may be: broken, links, devices, others' property; and what is done to them half way.

use super::*;

#[test]
fn one_broken_file_and_none_is_written() {
    let broken: &[(&str, &str, &str, &str)] = &[
        ("claude", ".claude/settings.json", "{\n  \"a\": 1,\n}\n", "settings.json:2:"),
        ("claude", ".claude/settings.json", "{\n  // why\n  \"a\": 1\n}\n", "settings.json:2:"),
        ("claude", ".claude/settings.json", "{\n  \"a\": 1\n", "settings.json:"),
        ("claude", ".claude/settings.json", "[]\n", "the top level is not an object"),
        (
            "claude",
            ".claude/settings.json",
            "{\n\n \"hooks\": []}\n",
            "settings.json:3: hooks is not an object",
        ),
        (
            "claude",
            ".claude/settings.json",
            "{\"hooks\": {\n\"Stop\": {}}}\n",
            "settings.json:2: Stop is not an array",
        ),
        (
            "claude",
            ".claude/settings.json",
            "{\"hooks\": {},\n\"hooks\": {}}",
            "settings.json:2: hooks occurs twice",
        ),
        ("claude", ".mcp.json", "{\n\"mcpServers\": 3}", ".mcp.json:2: mcpServers is not an object"),
        (
            "claude",
            ".mcp.json",
            "{\"mcpServers\": {\"onus\": {\"command\": \"x\",\n\"command\": \"onus\", \"args\": [\"mcp\"]}}}",
            ".mcp.json:2: command occurs twice",
        ),
        (
            "claude",
            "CLAUDE.md",
            "a\n<!-- onus:begin -->\nb\n",
            "CLAUDE.md:2: an onus:begin mark without its end",
        ),
        ("claude", "CLAUDE.md", "<!-- onus:end -->\n", "CLAUDE.md:1:"),
        ("codex", ".codex/hooks.json", "{ // no\n}", "hooks.json:1:"),
        ("codex", ".codex/config.toml", "a = 1\nb = = 2\n", "config.toml:2: not TOML"),
        ("gemini", ".gemini/settings.json", "{\n  \"a\": [1,], // why\n}\n", "settings.json:2:"),
    ];
    let all: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
    for (name, path, text, says) in broken {
        let world = World::with(&[(path, text), ("AGENTS.md", "Mine.\n")]);
        let before = world.tree();
        for agents in [&[*name][..], &all] {
            let refusal = world.set_up(agents).unwrap_err();
            assert_eq!(refusal.exit_code(), 2, "{refusal:?}");
            assert!(refusal.message.contains(says), "{text:?}: {}", refusal.message);
            assert_eq!(world.tree(), before, "{text:?}");
            assert!(!world.receipts().exists(), "{text:?}");
        }
    }
}

#[test]
fn what_is_no_plain_text_file_of_the_repository_is_refused() {
    let refused = |world: &World, says: &str| {
        let before = world.tree();
        let refusal = world.set_up(&["claude", "codex"]).unwrap_err();
        assert_eq!(refusal.exit_code(), 2, "{refusal:?}");
        assert!(refusal.message.contains(says), "{}", refusal.message);
        assert_eq!(world.tree(), before);
    };
    let world = World::new();
    fs::create_dir(world.root().join("CLAUDE.md")).unwrap();
    refused(&world, "is a folder");

    let world = World::new();
    fs::write(world.folder.path().join("elsewhere"), "theirs").unwrap();
    std::os::unix::fs::symlink("../elsewhere", world.root().join("AGENTS.md")).unwrap();
    refused(&world, "outside");
    assert_eq!(fs::read_to_string(world.folder.path().join("elsewhere")).unwrap(), "theirs");

    let world = World::new();
    fs::create_dir(world.folder.path().join("outside")).unwrap();
    std::os::unix::fs::symlink("../outside", world.root().join(".codex")).unwrap();
    refused(&world, "outside");

    let world = World::new();
    std::os::unix::fs::symlink("nowhere", world.root().join("CLAUDE.md")).unwrap();
    let refusal = world.set_up(&["claude"]).unwrap_err();
    assert!(refusal.message.contains("leads nowhere"), "{}", refusal.message);

    let world = World::new();
    world.put("CLAUDE.md", b"one\ntwo \xff\n");
    refused(&world, "CLAUDE.md:2: is not UTF-8");

    let world = World::new();
    world.put(".claude/settings.json", format!("{{ \"a\": \"{}\" }}", "x".repeat(1024 * 1024)));
    refused(&world, "larger than 1024 KiB");

    let world = World::with(&[("CLAUDE.md", "Mine.\n")]);
    let mut kept = fs::metadata(world.root().join("CLAUDE.md")).unwrap().permissions();
    kept.set_readonly(true);
    fs::set_permissions(world.root().join("CLAUDE.md"), kept).unwrap();
    refused(&world, "read-only");
}

#[test]
fn a_link_into_the_folders_of_git_or_onus_is_neither_read_nor_written() {
    let links: &[(&str, &str, &str)] = &[
        ("CLAUDE.md", ".git/config", "[core]\n"),
        ("CLAUDE.md", ".GIT/config", "[core]\n"),
        ("CLAUDE.md", "sub/.git/hooks/pre-commit", "#!/bin/sh\n"),
        ("CLAUDE.md", ".onus/writer.lock", ""),
        (".claude/settings.json", "../.git/settings.json", "{}"),
        (".mcp.json", "step", "{}"),
    ];
    for (path, leads_to, text) in links {
        let world = World::with(&[(".claude/x", ""), (".git/inner", "{}")]);
        // A link to a link, and a folder on the way.
        std::os::unix::fs::symlink(".git/inner", world.root().join("step")).unwrap();
        let place = world.root().join(path).parent().unwrap().join(leads_to);
        if !place.exists() {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, text).unwrap();
        }
        std::os::unix::fs::symlink(leads_to, world.root().join(path)).unwrap();
        let before = world.tree();
        let check =
            world.setup_env(Level::Project, |setup_env| agent("claude").unwrap().found(setup_env)).map(drop);
        for refused in [check, world.set_up(&["claude"]).map(drop), world.remove(&["claude"]).map(drop)] {
            let refusal = refused.unwrap_err();
            assert_eq!(refusal.exit_code(), 2, "{path}: {refusal:?}");
            assert!(refusal.message.contains("belongs to git or onus"), "{path}: {refusal:?}");
        }
        assert_eq!(world.tree(), before, "{path}");
        assert!(!world.receipts().exists());
    }
    // A folder that is a link, for a file that is not there yet.
    let world = World::with(&[(".git/config", "[core]\n")]);
    std::os::unix::fs::symlink(".git", world.root().join(".claude")).unwrap();
    let before = world.tree();
    assert_eq!(world.set_up(&["claude"]).unwrap_err().exit_code(), 2);
    assert_eq!(world.tree(), before);
}

#[test]
fn a_pipe_or_a_device_is_not_waited_for() {
    let world = World::new();
    let made = std::process::Command::new("mkfifo").arg(world.root().join("CLAUDE.md")).status().unwrap();
    assert!(made.success());
    let refusal = world.set_up(&["claude"]).unwrap_err();
    assert!(refusal.message.contains("is not a plain file"), "{refusal:?}");
    let world = World::new();
    std::os::unix::fs::symlink("/dev/zero", world.root().join("CLAUDE.md")).unwrap();
    assert!(world.set_up(&["claude"]).unwrap_err().message.contains("outside"));
}

#[test]
fn an_error_shows_nothing_of_what_is_in_a_file() {
    for (name, path, text) in [
        ("codex", ".codex/config.toml", "s3cret = 1\ns3cret = 2\n"),
        ("codex", ".codex/config.toml", "a = 1\ns3cret\n"),
        ("claude", ".mcp.json", "s3cret"),
        ("claude", ".mcp.json", "{\"mcpServers\": \"s3cret\"}"),
        ("gemini", ".gemini/settings.json", "{\"a\": s3cret}"),
    ] {
        let world = World::with(&[(path, text)]);
        let refusal = world.set_up(&[name]).unwrap_err();
        assert!(!format!("{refusal:?}").contains("s3cret"), "{refusal:?}");
    }
}

#[test]
fn a_link_in_the_home_may_lead_anywhere_that_is_the_users_own() {
    let world = World::new();
    let dotfiles = world.folder.path().join("dotfiles");
    fs::create_dir_all(dotfiles.join("codex")).unwrap();
    // Larger than a repository's file may be: the agent keeps its state there.
    let state = format!("{{\"history\": \"{}\"}}", "x".repeat(2 * 1024 * 1024));
    fs::write(dotfiles.join("claude.json"), &state).unwrap();
    fs::write(dotfiles.join("codex/config.toml"), "model = \"o\"\n").unwrap();
    std::os::unix::fs::symlink(dotfiles.join("claude.json"), world.home().join(".claude.json")).unwrap();
    std::os::unix::fs::symlink("../dotfiles/codex", world.home().join(".codex")).unwrap();
    let before = tree(&dotfiles);
    let agents = named(&["claude", "codex"]);
    world.setup_env(Level::User, |setup_env| {
        apply(setup_env, &plan_setup(setup_env, &agents, false).unwrap()).unwrap();
        assert!(fs::read_to_string(dotfiles.join("claude.json")).unwrap().contains("\"onus\""));
        assert!(dotfiles.join("codex/hooks.json").exists());
        assert!(world.home().join(".claude.json").is_symlink() && world.home().join(".codex").is_symlink());
        apply(setup_env, &plan_removal(setup_env, &agents).unwrap()).unwrap();
    });
    assert_eq!(tree(&dotfiles), before);
    assert!(world.home().join(".claude.json").is_symlink());

    // Another user's: root makes one, and for anybody else root's will do.
    let theirs = if rustix::process::geteuid().is_root() {
        let theirs = world.folder.path().join("theirs");
        fs::write(&theirs, "{}").unwrap();
        std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
        theirs
    } else {
        PathBuf::from("/etc/passwd")
    };
    fs::remove_file(world.home().join(".claude.json")).unwrap();
    std::os::unix::fs::symlink(&theirs, world.home().join(".claude.json")).unwrap();
    let refusal =
        world.setup_env(Level::User, |setup_env| plan_setup(setup_env, &agents, false)).unwrap_err();
    assert!(refusal.message.contains("another user"), "{refusal:?}");
}

#[test]
fn a_file_that_takes_the_place_of_ours_before_it_is_made_changes_nothing() {
    let world = World::with(&[("victim", "theirs\n"), ("CLAUDE.md", "Mine.\n")]);
    let guessed = format!(".CLAUDE.md.onus-{}", std::process::id());
    std::os::unix::fs::symlink("victim", world.root().join(&guessed)).unwrap();
    world.set_up(&["claude"]).unwrap();
    assert_eq!(world.get("victim"), "theirs\n");
    assert!(world.get("CLAUDE.md").contains("onus:begin"));
    let left: Vec<String> = world.tree().into_keys().filter(|path| path.contains(".onus-")).collect();
    assert_eq!(left, [guessed], "nothing of ours is left behind");
}

#[test]
fn the_owner_of_a_file_stays() {
    use std::os::unix::fs::MetadataExt as _;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    let world = World::with(&[("CLAUDE.md", "Mine.\n")]);
    let file = world.root().join("CLAUDE.md");
    std::os::unix::fs::chown(&file, Some(65534), Some(65534)).unwrap();
    world.set_up(&["claude"]).unwrap();
    let owner = |path: &Path| (fs::metadata(path).unwrap().uid(), fs::metadata(path).unwrap().gid());
    assert_eq!(owner(&file), (65534, 65534));
    world.remove(&["claude"]).unwrap();
    assert_eq!((owner(&file), world.get("CLAUDE.md").as_str()), ((65534, 65534), "Mine.\n"));
}

#[test]
fn a_receipt_that_names_other_folders_removes_none_of_them() {
    let world = World::new();
    world.set_up(&["claude"]).unwrap();
    let other = world.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    for entry in fs::read_dir(world.receipts()).unwrap() {
        let path = entry.unwrap().path();
        let mut receipt: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        receipt["made"].as_array_mut().unwrap().push(other.to_str().unwrap().into());
        fs::write(&path, receipt.to_string()).unwrap();
    }
    world.remove(&["claude"]).unwrap();
    assert!(other.exists());
    assert_eq!(world.tree(), Tree::new());
}

#[test]
fn a_link_inside_the_repository_is_followed_and_stays_a_link() {
    let world = World::with(&[("AGENTS.md", "Mine.\n")]);
    std::os::unix::fs::symlink("AGENTS.md", world.root().join("CLAUDE.md")).unwrap();
    let before = world.tree();
    world.set_up(&["claude", "codex"]).unwrap();
    assert!(world.root().join("CLAUDE.md").is_symlink());
    assert_eq!(world.get("AGENTS.md").matches("onus:begin").count(), 1);
    // The other goes on reading it.
    world.remove(&["claude"]).unwrap();
    assert_eq!(world.states("codex"), [State::Present; 3]);
    world.remove(&["codex"]).unwrap();
    assert_eq!(world.tree(), before);
    assert!(world.root().join("CLAUDE.md").is_symlink());
}

#[test]
fn instructions_that_another_agent_reads_stay_until_it_goes() {
    for with_receipts in [true, false] {
        let world = World::new();
        let before = world.tree();
        world.set_up(&["codex"]).unwrap();
        world.set_up(&["agents-md"]).unwrap();
        if !with_receipts {
            fs::remove_dir_all(world.receipts()).unwrap();
        }
        world.remove(&["agents-md"]).unwrap();
        assert_eq!(world.states("codex"), [State::Present; 3], "{with_receipts}");
        world.remove(&["codex"]).unwrap();
        assert_eq!(world.tree(), before, "{with_receipts}");
    }
}

#[test]
fn permissions_stay_and_receipts_are_their_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::with(&[(".claude/settings.json", "{}\n")]);
    let file = world.root().join(".claude/settings.json");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    world.set_up(&["claude"]).unwrap();
    assert_eq!(mode(&file), 0o640);
    for entry in fs::read_dir(world.receipts()).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    world.remove(&["claude"]).unwrap();
    assert_eq!(mode(&file), 0o640);
}

#[test]
fn the_users_own_configuration_is_written_below_the_home_directory() {
    let world = World::new();
    fs::write(world.home().join(".claude.json"), "{\"numStartups\": 3}").unwrap();
    let before = tree(&world.home());
    world.setup_env(Level::User, |setup_env| {
        let agents = named(&["claude", "codex", "gemini"]);
        apply(setup_env, &plan_setup(setup_env, &agents, false).unwrap()).unwrap();
        let files: Vec<String> =
            tree(&world.home()).into_keys().filter(|path| !path.ends_with('/')).collect();
        assert_eq!(
            files,
            [
                ".claude.json",
                ".claude/CLAUDE.md",
                ".claude/settings.json",
                ".codex/AGENTS.md",
                ".codex/config.toml",
                ".codex/hooks.json",
                ".gemini/GEMINI.md",
                ".gemini/settings.json",
            ]
        );
        apply(setup_env, &plan_removal(setup_env, &agents).unwrap()).unwrap();
        assert_eq!(plan_setup(setup_env, &named(&["agents-md"]), false).unwrap_err().exit_code(), 2);
    });
    assert_eq!(tree(&world.home()), before);
    assert_eq!(world.tree(), Tree::new());
}

#[test]
fn the_store_in_a_sandbox_is_written_when_asked_for_and_taken_out_with_the_rest() {
    let world = World::with(&[(".claude/settings.json", "{}\n")]);
    fs::create_dir(world.home().join(".codex")).unwrap();
    fs::write(world.home().join(".codex/config.toml"), "model = \"o\" # mine\n").unwrap();
    let before = (world.tree(), tree(&world.home()));
    let agents = named(&["claude", "codex", "gemini"]);
    world.setup_env(Level::Project, |setup_env| {
        apply(setup_env, &plan_setup(setup_env, &agents, false).unwrap()).unwrap();
        assert!(agents.iter().all(|agent| !agent.is_allowed(setup_env)), "not without being asked");
        assert_eq!(tree(&world.home()), before.1);
        apply(setup_env, &plan_setup(setup_env, &agents, true).unwrap()).unwrap();
        assert!(agents.iter().all(|agent| agent.is_allowed(setup_env)));
        apply(setup_env, &plan_removal(setup_env, &agents).unwrap()).unwrap();
    });
    assert_eq!((world.tree(), tree(&world.home())), before);
}

#[test]
fn what_cannot_be_written_half_way_is_put_back() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::with(&[("CLAUDE.md", "Mine.\n"), (".gemini/x", "")]);
    // A folder that nothing can be made in; who may do everything makes the test say nothing, and passes it.
    fs::set_permissions(world.root().join(".gemini"), fs::Permissions::from_mode(0o555)).unwrap();
    let before = world.tree();
    let outcome = world.set_up(&["claude", "gemini"]);
    fs::set_permissions(world.root().join(".gemini"), fs::Permissions::from_mode(0o755)).unwrap();
    if outcome.is_err() {
        assert_eq!(world.tree(), before);
        assert!(!world.receipts().exists());
    }
}

#[test]
fn a_missing_onus_passes_in_silence_and_is_told_once_a_session() {
    let world = World::new();
    world.set_up(&["claude", "codex", "gemini"]).unwrap();
    for (path, first) in [
        (".claude/settings.json", "SessionStart"),
        (".codex/hooks.json", "SessionStart"),
        (".gemini/settings.json", "SessionStart"),
    ] {
        let value: Value = serde_json::from_str(&world.get(path)).unwrap();
        for (event, groups) in value["hooks"].as_object().unwrap() {
            let command = groups[0]["hooks"][0]["command"].as_str().unwrap();
            let shell = std::process::Command::new("/bin/sh")
                .args(["-c", command])
                .env("PATH", "/usr/bin:/bin")
                .stdin(std::process::Stdio::null())
                .output()
                .unwrap();
            assert!(shell.status.success(), "{path}: {event}");
            assert!(shell.stderr.is_empty(), "{path}: {event}");
            if event == first {
                let said: Value = serde_json::from_slice(&shell.stdout).unwrap();
                assert!(said["systemMessage"].as_str().unwrap().contains("not on PATH"));
            } else {
                assert!(shell.stdout.is_empty(), "{path}: {event}");
            }
        }
    }
}

/// Whoever is late finds the folders that another made, and takes none of them away again.
#[test]
fn folders_that_several_make_at_the_same_time_are_there_for_all() {
    for _ in 0..50 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b/c/d/file");
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    onus_agents::setup::files::make_folders(&file).unwrap();
                    assert!(file.parent().unwrap().is_dir());
                });
            }
        });
    }
}
