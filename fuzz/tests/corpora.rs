//! Every target over its corpus and some thousand mutations of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../crates/cli/src/wording.rs"]
mod wording;

use onus_core::command::{Act, Command, NewTask, Terms};
use onus_core::quote::shell_word;
use onus_core::scope::{Glob, Scope};
use onus_engine::Notice;
use onus_fuzz::texts::{Cast, assert_one_command, assert_quoted, caller, engine, request};
use onus_fuzz::{corpus, run, targets};
use onus_store::Filter;

/// More by `FUZZ_EXECS=1000000 cargo test --profile sim -p onus-fuzz`.
fn execs() -> u64 {
    onus_fuzz::execs(20_000)
}

#[test]
fn references_mean_the_same_when_written_again() {
    run(&corpus("reference"), execs(), targets::reference);
}

#[test]
fn durations_are_bounded() {
    run(&corpus("duration"), execs(), targets::duration);
}

#[test]
fn names_and_origins_are_kept_as_written() {
    run(&corpus("name"), execs(), targets::name);
}

#[test]
fn globs_meet_where_a_naive_matcher_says_so() {
    run(&corpus("glob"), execs() / 4, targets::glob);
}

#[test]
fn hook_payloads_are_read_or_left_alone() {
    run(&corpus("hook"), execs(), targets::hook);
}

#[test]
fn asks_are_read_or_refused_by_a_field() {
    run(&corpus("intake"), execs() / 4, targets::intake);
}

#[test]
fn what_landing_reads_is_kept_and_counts_for_what_it_names() {
    run(&corpus("landing"), execs(), targets::landing);
}

#[test]
fn commands_are_read_and_quoting_invents_no_file() {
    run(&corpus("shell"), execs(), targets::shell);
}

#[test]
fn cursors_are_understood_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = std::cell::RefCell::new(engine(folder.path()));
    run(&corpus("cursor"), execs() / 20, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let listed = engine.borrow_mut().list(None, &Filter::default(), Some(&text), 10);
        match listed {
            Ok(page) => assert!(page.value.tasks.is_empty()),
            Err(refusal) => assert_eq!(refusal.exit_code(), 2, "{}", refusal.message),
        }
    });
}

#[test]
fn texts_of_others_stay_in_their_quotations_and_commands_are_one() {
    run(&corpus("text"), execs(), targets::text);
}

/// What a real shell makes of a word: the text.
#[test]
fn a_real_shell_reads_the_word_that_was_meant() {
    let mut tried = 0;
    for file in std::fs::read_dir(corpus("text")).unwrap() {
        let cast = Cast::of(&std::fs::read(file.unwrap().path()).unwrap());
        for (text, word) in cast.texts().iter().filter_map(|text| Some((text, shell_word(text)?))) {
            let line = format!("printf '%s|' onus scope rm --task ON-1 {word}");
            let ran = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(
                String::from_utf8_lossy(&ran.stdout),
                format!("onus|scope|rm|--task|ON-1|{text}|"),
                "{line}"
            );
            tried += 1;
        }
    }
    assert!(tried > 20, "only {tried} words");
}

/// A step that is suggested with a refusal: one command, and nothing of anybody's in it.
fn assert_step(step: &str) {
    let command = step.split("   #").next().unwrap();
    if command.starts_with("onus ") {
        let words = shlex::split(command).unwrap();
        assert_one_command(command, &words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(words.iter().all(|word| word == "…" || word.is_ascii()), "{step}");
    }
}

fn assert_notice(notice: &Notice, texts: &[String], glob: Option<&Glob>) {
    let said = wording::notice(notice);
    assert_quoted(&said.message, texts);
    let line = wording::notice_line(notice);
    assert!(!line.contains('\n') && line.len() < 1_200, "{line}");
    let command = said.next.iter().find(|step| step.starts_with("onus scope rm"));
    if let (Some(command), Some(glob)) = (command, glob) {
        let id = said.task.as_deref().unwrap();
        assert_one_command(command, &["onus", "scope", "rm", "--task", id, glob.as_str()]);
    }
}

/// Two agents and their texts through the real engine: what the one is refused, and what the other is told.
#[test]
fn what_the_engine_says_of_others_texts_is_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let engine = std::cell::RefCell::new(engine(folder.path()));
    run(&corpus("text"), (execs() / 400).max(30), |bytes| {
        let (cast, mut engine) = (Cast::of(bytes), engine.borrow_mut());
        let (glob, path) = (Glob::literal(cast.text(2)).ok(), cast.text(2).to_owned());
        let mut texts = cast.texts().to_vec();
        texts.extend(glob.iter().flat_map(|glob| [glob.as_str(), glob.anchor()]).map(str::to_owned));
        let mut holder = caller("agent:holder", "h-1");
        if let Ok(instance) = cast.text(3).parse() {
            holder.instance = instance;
        }
        let other = caller("agent:other", "o-1");
        // Refused or not, what is said is quoted.
        let title = cast.text(0).lines().next().unwrap_or("x").to_owned();
        texts.push(title.clone());
        let add = Command::Add(NewTask::titled(title));
        let Ok(added) = engine.run(&request(&holder, add)) else { return };
        let onus_engine::Answer::Task(task) = &added.answer else { panic!("no task: {added:?}") };
        let reference = Some(task.id.parse().unwrap());
        let on = |act| Command::OnTask { task: reference.clone(), act, force: None };
        let scope: Scope = glob.iter().cloned().collect();
        engine.run(&request(&holder, on(Act::Claim(Terms { scope, ..Terms::default() })))).unwrap();
        let _ = engine.run(&request(&other, on(Act::note(cast.text(1)))));
        let refused = engine.run(&request(&other, on(Act::Claim(Terms::default())))).unwrap_err();
        assert_quoted(&refused.message, &texts);
        wording::refusal(&refused).next.iter().for_each(|step| assert_step(step));
        if let Some(glob) = &glob {
            let own =
                engine.run(&request(&other, Command::Add(NewTask::titled("another".to_owned())))).unwrap();
            let onus_engine::Answer::Task(own) = &own.answer else { panic!("no task: {own:?}") };
            let own = Some(own.id.parse().unwrap());
            let terms = Terms { scope: [glob.clone()].into_iter().collect(), ..Terms::default() };
            let refused = engine
                .run(&request(&other, Command::OnTask { task: own, act: Act::Claim(terms), force: None }))
                .unwrap_err();
            assert_eq!(refused.code, onus_core::refusal::Code::Scope);
            assert_quoted(&refused.message, &texts);
            wording::refusal(&refused).next.iter().for_each(|step| assert_step(step));
            engine.record_wish((&other.actor, &other.instance), &task.id, Some(&path), None).unwrap();
        }
        let looked = engine.status(Some(&holder)).unwrap();
        assert!(looked.notices.len() <= 12, "{:?}", looked.notices);
        looked.notices.iter().for_each(|notice| assert_notice(notice, &texts, glob.as_ref()));
        for held in looked.value.held.iter().chain(&looked.value.lapsed) {
            assert_quoted(&held.message, &texts);
        }
        let done = Act::Move {
            verb: onus_core::transition::Verb::Done,
            message: Some("x".to_owned()),
            uncommitted: None,
            demand: None,
        };
        engine.run(&request(&holder, on(done))).unwrap();
    });
}
