//! `onus mcp`, held against the official client. Each test runs a case of `cases.py` in a sandbox of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{ONUS, Ran, Sandbox};

/// The Python that has the client: `scripts/test` makes it and says where it is.
fn python() -> String {
    std::env::var("ONUS_TEST_PYTHON").unwrap_or_else(|_| {
        panic!("ONUS_TEST_PYTHON is not set: run scripts/test, or name a Python that has tests/mcp/requirements.txt")
    })
}

#[track_caller]
fn keeps(case: &str) {
    let sandbox = Sandbox::new();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/cases.py");
    let mut command = Command::new(python());
    command
        .arg("-B")
        .arg(cases)
        .arg(case)
        .current_dir(sandbox.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", sandbox.path())
        .env("ONUS", ONUS)
        .stdin(Stdio::null());
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{case}\n{}\n{}", ran.stdout, ran.stderr);
    sandbox.is_whole();
}

macro_rules! cases {
    ($($case:ident,)*) => {
        $(#[test]
        fn $case() {
            keeps(stringify!($case));
        })*

        /// A case that nobody runs keeps nothing.
        #[test]
        fn every_case_is_run() {
            let text = include_str!("cases.py");
            let written = text.lines().filter_map(|line| line.strip_prefix("async def ")?.strip_suffix("():"));
            let written: Vec<&str> = written.filter(|case| *case != "client_to_be_killed").collect();
            assert_eq!(written, [$(stringify!($case)),*]);
        }
    };
}

cases! {
    the_tools_teach_the_loop_and_are_cheap,
    the_whole_list_is_under_1600_tokens,
    the_loop_from_ready_to_done,
    gates_are_run_where_the_work_is_and_what_comes_next_is_a_tool,
    the_text_alone_is_enough,
    the_structured_part_alone_is_enough,
    the_newest_revision_is_spoken_with_and_without_initialize,
    an_added_task_is_what_was_said,
    an_ask_with_an_origin_is_one_task_by_whatever_door_it_comes,
    files_have_the_names_that_they_have_on_the_command_line,
    every_refusal_is_the_command_lines,
    of_two_clients_one_wins,
    notices_ride_along,
    a_waiting_claim_is_woken_by_a_release,
    a_cancelled_wait_takes_nothing,
    a_claim_that_was_granted_when_it_was_cancelled_is_given_back,
    a_killed_client_holds_nothing_any_more,
    a_client_below_a_shell_is_what_claims_are_bound_to,
    the_server_ends_with_its_client,
    what_only_the_connection_held_is_given_back_with_it,
    who_calls_is_found_out_in_every_call,
    names_are_found_where_they_are_said,
    a_store_that_cannot_be_written_is_read,
    a_store_may_come_later,
    nonsense_is_answered_and_too_much_ends_it,
}
