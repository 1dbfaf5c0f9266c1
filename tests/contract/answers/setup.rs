//! How onus is set up: configuration, the doctor, agents, the guard.

use super::*;

#[derive(JsonSchema, Serialize)]
pub(crate) struct ConfigValue {
    key: String,
    value: Option<SettingValue>,
    source: Option<String>,
    /// Null for a table.
    env: Option<String>,
    about: String,
    /// What files say, too, and does not count because another is stricter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    looser: Vec<LooserValue>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct LooserValue {
    value: SettingValue,
    source: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct ConfigAnswer {
    config: Vec<ConfigValue>,
    /// The tables that a project may define.
    tables: Vec<ConfigTable>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct ConfigTable {
    /// How it is written, such as `area.NAME`.
    table: String,
    about: String,
}

/// A key's value: a text, a list, or a table.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum SettingValue {
    Text(String),
    Number(i64),
    Flag(bool),
    List(Vec<String>),
    Area { paths: Vec<String> },
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct ConfigEditAnswer {
    key: String,
    /// As the file has it; null: no longer set there.
    value: Option<SettingValue>,
    file: String,
    /// The file is new.
    created: bool,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct ConfigGetAnswer {
    key: String,
    value: SettingValue,
    source: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct ConfigFilesAnswer {
    repository: Option<String>,
    user: Option<String>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct Check {
    name: String,
    ok: bool,
    detail: String,
    /// Whether `doctor --fix` can mend it.
    mendable: bool,
}

/// The doctor's report. Exit 8 and an `error` if something is not well.
#[derive(JsonSchema, Serialize)]
pub(crate) struct DoctorAnswer {
    ok: bool,
    checks: Vec<Check>,
    fixed: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
}

/// Whose configuration it is: the repository's or the user's.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SetupLevel {
    Project,
    User,
}

/// What an agent's sandbox means for the store, and the lines that leave it writable.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SetupSandbox {
    says: String,
    /// Whether those lines are written.
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<String>>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct SetupFile {
    path: String,
    /// `created`, `changed`, `restored` (as it was, byte for byte), `removed` or `unchanged`.
    done: String,
    /// What bore the name or mark of onus, was not as it is written, and is put right: lines and keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    differed: Option<Vec<String>>,
    /// With `--print`: line by line, `-` what goes and `+` what comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct SetupAgent {
    name: String,
    title: String,
    /// By what it was found here: its program or its folder.
    detected: Option<String>,
    files: Vec<SetupFile>,
    /// When set up: what its user has to know or do.
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<SetupSandbox>,
}

/// What was written for each agent, or taken out.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SetupAnswer {
    level: SetupLevel,
    /// `setup` or `remove`.
    action: String,
    /// With `--print`: nothing was written.
    dry_run: bool,
    onus_on_path: bool,
    /// Whether git's hooks check commits here; null: outside git, or for the user's own configuration.
    guard: Option<bool>,
    agents: Vec<SetupAgent>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct SetupPart {
    path: String,
    /// `hooks`, `mcp server` or `instructions`.
    part: String,
    /// `present`, `changed` or `missing`.
    state: String,
    /// If it is changed: how, by lines and keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<Vec<String>>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct SetupChecked {
    name: String,
    title: String,
    detected: Option<String>,
    set_up: bool,
    parts: Vec<SetupPart>,
    /// Why the agent does not run the hooks that are there.
    untrusted: Option<String>,
    sandbox: SetupSandbox,
}

/// What became of one of git's hooks.
#[derive(JsonSchema, Serialize)]
pub(crate) struct GuardHook {
    hook: String,
    /// `created`, `added` (to a hook that runs as before), `restored` (as it was, byte for byte), `removed`, `taken_out` (of a hook that
    /// was changed since) or `unchanged`.
    done: String,
}

/// A line to add by hand to a hook in a folder that is not git's own.
#[derive(JsonSchema, Serialize)]
pub(crate) struct GuardLine {
    hook: String,
    line: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct GuardAnswer {
    /// The folder in which git looks for hooks.
    hooks_path: String,
    installed: bool,
    hooks: Vec<GuardHook>,
    /// Hooks from before that others have replaced since: they are kept here.
    left: Vec<String>,
    add: Vec<GuardLine>,
    /// Exit 6: nothing was installed, because git looks for its hooks in a folder that is not ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct GuardReached {
    hook: String,
    /// `ours`, `both` (another hook runs after ours), `others` or `nothing`.
    found: String,
    /// Whether git, asked to run it, reached onus.
    reached: bool,
}

/// Whether git reaches the guard. Exit 6 and an `error` if it does not.
#[derive(JsonSchema, Serialize)]
pub(crate) struct GuardStatusAnswer {
    hooks_path: String,
    ok: bool,
    hooks: Vec<GuardReached>,
    add: Vec<GuardLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
}

/// These files may be changed now.
#[derive(JsonSchema, Serialize)]
pub(crate) struct GuardCheckAnswer {
    ok: bool,
    paths: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notices: Option<Vec<Notice>>,
}

/// Which parts are where. Exit 6 and an `error` if something is missing.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SetupCheckAnswer {
    level: SetupLevel,
    action: String,
    ok: bool,
    onus_on_path: bool,
    agents: Vec<SetupChecked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct SetupListed {
    name: String,
    title: String,
    detected: Option<String>,
    /// `yes`, `partly`, `no`, or `unknown` if a file of it is broken.
    set_up: String,
    /// What is wrong with that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

/// The agents that onus can set up.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SetupListAnswer {
    level: SetupLevel,
    action: String,
    agents: Vec<SetupListed>,
}
