//! An agent's harness, as far as `onus hook` can tell: what it reports, and how it calls.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::place::Repository;

/// A harness that works in a repository and calls this `onus`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Harness<'a> {
    pub(crate) onus: &'a Path,
    pub(crate) repository: &'a Repository,
}

/// What it reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report<'a> {
    pub(crate) session: &'a str,
    pub(crate) event: &'a str,
    pub(crate) tool: &'a str,
    /// The file that the tool is about, if it is about one.
    pub(crate) file: &'a str,
}

impl Harness<'_> {
    /// Writes the report where [`Harness::command`] reads it: no part of what is measured.
    pub(crate) fn write(&self, Report { session, event, tool, file }: Report<'_>) -> Result<()> {
        let root = &self.repository.root;
        let input = match tool {
            "Bash" => serde_json::json!({ "command": "cargo check --workspace 2>&1 | tail -n 20" }),
            _ => serde_json::json!({ "file_path": root.join(file), "content": "x".repeat(4_000) }),
        };
        let payload = serde_json::json!({
            "session_id": session, "hook_event_name": event, "cwd": root, "tool_name": tool, "tool_input": input,
            "tool_use_id": "u-1",
        });
        Ok(fs::write(self.payload(), payload.to_string())?)
    }

    fn payload(&self) -> PathBuf {
        self.repository.root.join("payload.json")
    }

    /// What was written last.
    pub(crate) fn stdin(&self) -> Result<Stdio> {
        Ok(File::open(self.payload())?.into())
    }

    /// The hook's process, as a harness starts it, apart from the shell between.
    pub(crate) fn command(&self) -> Result<Command> {
        let mut command = Command::new(self.onus);
        command
            .args(["hook", "claude"])
            .env_clear()
            .env("HOME", &self.repository.root)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .current_dir(&self.repository.root)
            .stdin(self.stdin()?)
            .stderr(Stdio::null());
        Ok(command)
    }

    /// Calls the hook with what was written last. The edit must be allowed.
    pub(crate) fn call(&self, settings: &[(&str, &str)]) -> Result<()> {
        succeed(self.command()?.envs(settings.iter().copied()))
    }
}

/// Runs a command, which must refuse nothing.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    let answer = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || answer.contains("deny") {
        return Err(format!("{command:?}: {}: {answer}", output.status).into());
    }
    Ok(())
}
