//! A harness is never a person, whatever its shell looks like.

use crate::agents::harness::{Harness, Shell, who};
use crate::agents::kit::repository;
use crate::agents::payload::KINDS;

#[test]
fn in_a_pseudo_terminal_an_agent_is_an_agent() {
    let sandbox = repository();
    for kind in KINDS {
        let agent = Harness::new(kind, &sandbox, kind.name());
        let terminal = Shell { pty: true, ..Shell::default() };
        // Before its first hook its variables tell, and after it the process above.
        assert_eq!(agent.whoami_in(&terminal).0, agent.who().0);
        agent.start();
        assert_eq!(agent.whoami_in(&terminal), agent.who());
        let under_script = agent.shell("script -qec 'onus whoami --json' /dev/null");
        assert_eq!(who(&under_script), agent.who());
        let without = agent.shell_in(&terminal, "env -i PATH=\"$PATH\" USER=ann onus whoami --json");
        assert_eq!(who(&without), agent.who());
        let words = agent.shell_in(&terminal, "onus whoami").ok().stdout.clone();
        assert!(words.starts_with(&format!("agent:{}", kind.name())), "{words}");
    }
}

#[test]
fn a_persons_name_is_refused_however_an_agent_asks_for_it() {
    let sandbox = repository();
    let id = sandbox.add("A task");
    for kind in KINDS {
        let agent = Harness::new(kind, &sandbox, kind.name());
        agent.start();
        let before = sandbox.events();
        for pty in [false, true] {
            let shell = Shell { pty, ..Shell::default() };
            for command in [
                format!("onus note {id} x --as human:x"),
                format!("ONUS_ACTOR=human:x onus note {id} x"),
                format!("env -i PATH=\"$PATH\" ONUS_ACTOR=human:x ONUS_INSTANCE=y onus note {id} x"),
                format!("script -qec 'onus note {id} x --as human:x' /dev/null"),
                format!("onus takeover {id} --force --reason x --as human:x"),
                "onus whoami --as human:x".to_owned(),
            ] {
                assert_eq!(agent.shell_in(&shell, &command).code, 2, "{kind:?}: {command}");
            }
        }
        assert_eq!(sandbox.events(), before, "nothing was changed");
    }
}

#[test]
fn what_only_people_may_do_an_agent_may_not() {
    let sandbox = repository();
    let id = sandbox.add("A task");
    let holder = Harness::claude(&sandbox, "holder");
    holder.start();
    holder.json(&format!("onus claim {id}"));
    for kind in KINDS {
        let agent = Harness::new(kind, &sandbox, "other");
        agent.start();
        let forced = agent.shell_in(
            &Shell { pty: true, ..Shell::default() },
            &format!("onus takeover {id} --force --reason x"),
        );
        assert_ne!(forced.code, 0, "{forced:?}");
    }
    assert_eq!(sandbox.show(&id)["lease"]["instance"], "holder");
}
