//! P11, walked: every refusal through the command line and through MCP, as an agent and as a person. Each step that is named
//! exists where it is read; no agent is shown an override; a person is, and it works.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::sync::OnceLock;

use onus_core::refusal::Refusal;
use serde_json::{Value, json};

use crate::contract::kit::json_with;
use crate::contract::neutral::commands_typed;
use crate::contract::refusal_cases::cases;
use crate::contract::refusals::{COMING, all_codes};
use crate::contract::{mcp_words, wording};
use crate::support::{As, Ran, Sandbox, agent, human};

/// Codes whose rules no tool of MCP comes under: keys, versions, limits of terms, what only people may do, the ledger's checks.
const COMMAND_LINE_ONLY: [&str; 5] = ["changed", "key_reused", "limit", "people_only", "tampered"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Via {
    CommandLine,
    Mcp,
}

/// One refusal, as one kind of caller got it in one interface.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) via: Via,
    pub(crate) is_person: bool,
    pub(crate) error: Value,
    /// All that the interface said.
    pub(crate) said: String,
    /// What was asked for, where it was asked on the command line.
    args: Vec<String>,
}

/// A call of the command line.
type Asked<'a> = (&'a As, &'a [(&'a str, &'a str)], &'a [&'a str]);

fn is_person(who: &As) -> bool {
    who.actor.starts_with("human:")
}

/// What was refused on the command line, asked by the other kind of caller too, and by both through MCP.
pub(crate) fn walk(sandbox: &Sandbox, (who, env, args): Asked<'_>, own: &Ran) -> Vec<Walked> {
    let of = |who: &As, ran: &Ran| Walked {
        via: Via::CommandLine,
        is_person: is_person(who),
        error: ran.json()["error"].clone(),
        said: ran.stdout.clone(),
        args: args.iter().map(|word| (*word).to_owned()).collect(),
    };
    let other = if is_person(who) { agent("walker") } else { human("walker") };
    let mut walked = vec![of(who, own)];
    // Another may be granted what this one was refused.
    let ran = json_with(&copied(sandbox), &other, env, args);
    if ran.code != 0 && ran.json().get("error").is_some() {
        works(sandbox, &other, env, args, &ran.json()["error"]);
        walked.push(of(&other, &ran));
    }
    works(sandbox, who, env, args, &own.json()["error"]);
    if let Some((tool, arguments)) = call(args) {
        // A client that nobody gave a name has its own.
        if !who.actor.is_empty() {
            let asked = Client::start(sandbox, who, env).call(tool, &arguments);
            let refused = asked.unwrap_or_else(|granted| panic!("{args:?}: {granted}"));
            // Nobody passes for a person through a server.
            let code = if is_person(who) { json!("identity") } else { own.json()["error"]["code"].clone() };
            assert_eq!(refused["error"]["code"], code, "{args:?}");
            walked.push(through_mcp(who, &refused));
        }
        if let Ok(refused) = Client::start(&copied(sandbox), &other, env).call(tool, &arguments) {
            walked.push(through_mcp(&other, &refused));
        }
    }
    walked
}

/// The same for a refusal that is not made here.
pub(crate) fn walk_words(refusal: &Refusal) -> Vec<Walked> {
    let command_line = json!(wording::refusal(refusal));
    let mcp = json!(refusal.worded(mcp_words::step));
    let walked = |via, is_person, error: &Value| Walked {
        via,
        is_person,
        said: error.to_string(),
        error: error.clone(),
        args: Vec::new(),
    };
    vec![
        walked(Via::CommandLine, true, &command_line),
        walked(Via::CommandLine, false, &command_line),
        walked(Via::Mcp, false, &mcp),
    ]
}

fn through_mcp(who: &As, refused: &Value) -> Walked {
    let (error, said) = (refused["error"].clone(), refused.to_string());
    Walked { via: Via::Mcp, is_person: is_person(who), error, said, args: Vec::new() }
}

/// Another sandbox with the same files, in which something may be changed.
fn copied(sandbox: &Sandbox) -> Sandbox {
    let copy = sandbox.like();
    let all = sandbox.path().join(".");
    let ran = std::process::Command::new("cp").arg("-a").arg(all).arg(copy.path()).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    copy
}

/// What a person is told to do if it must be, does what was refused.
fn works(sandbox: &Sandbox, who: &As, env: &[(&str, &str)], args: &[&str], error: &Value) {
    let Some(way) = error["override"].as_str() else { return };
    assert!(is_person(who), "{args:?}: {way}");
    let words = told(way, args);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = json_with(&copied(sandbox), who, env, &words);
    assert_eq!(ran.code, 0, "{words:?} does not help: {ran:?}");
}

/// The words of a command that was suggested: a whole one, or what to add to the one that was given.
fn told(step: &str, args: &[&str]) -> Vec<String> {
    let command = step.split("   #").next().unwrap();
    let given = args.iter().map(|word| (*word).to_owned());
    match (command.strip_prefix("onus "), command.strip_prefix("repeat it with ")) {
        (Some(whole), _) => shlex::split(whole).unwrap(),
        (_, Some(more)) => {
            let more = shlex::split(more).unwrap();
            // A reason that was given is the reason.
            let is_new = |pair: &&[String]| !args.contains(&pair[0].as_str());
            let (flags, pairs) = more.split_at(more.len() % 2);
            let pairs = pairs.chunks(2).filter(is_new).flatten();
            given.chain(flags.iter().chain(pairs).cloned()).collect()
        }
        _ => Vec::new(),
    }
}

/// The tool call that asks for the same.
fn call(args: &[&str]) -> Option<(&'static str, Value)> {
    Some(match args {
        ["claim", "--next"] => ("claim", json!({})),
        ["claim", id] => ("claim", json!({ "id": id })),
        ["claim", id, "--scope", glob] => ("claim", json!({ "id": id, "scope": [glob] })),
        ["touch", path] => ("touch", json!({ "paths": [path] })),
        ["touch", path, "--task", id] => ("touch", json!({ "paths": [path], "id": id })),
        ["note", id, text] => ("note", json!({ "id": id, "text": text })),
        ["done", id, "-m", text] => ("done", json!({ "id": id, "message": text })),
        ["submit", id] => ("done", json!({ "id": id, "message": "x", "submit": true })),
        ["release"] => ("release", json!({})),
        ["release", id] => ("release", json!({ "id": id })),
        ["show", id] => ("show", json!({ "id": id })),
        ["status"] => ("status", json!({})),
        ["add", title] => ("add", json!({ "title": title })),
        ["add", title, "--parent", parent, "--dep", dep] => {
            ("add", json!({ "title": title, "parent": parent, "deps": [dep] }))
        }
        _ => return None,
    })
}

/// A client of `onus mcp`.
struct Client {
    server: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Client {
    fn start(sandbox: &Sandbox, who: &As, env: &[(&str, &str)]) -> Client {
        let mut command = sandbox.command(who);
        command.arg("mcp").envs(env.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let answers = BufReader::new(server.stdout.take().unwrap());
        let mut client = Client { server, answers };
        let about = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "walker", "version": "1" } });
        client.ask("initialize", &about);
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn say(&mut self, message: &Value) {
        let mut input = self.server.stdin.as_ref().unwrap();
        writeln!(input, "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["result"].take()
    }

    /// The refusal with its text; or what was granted.
    fn call(mut self, tool: &str, arguments: &Value) -> Result<Value, Value> {
        let result = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let document = &result["structuredContent"];
        match document.get("error") {
            Some(error) => Ok(json!({ "error": error, "text": result["content"][0]["text"] })),
            None => Err(document.clone()),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

/// Every tool's schema, as the server lists it.
fn tools() -> &'static BTreeMap<String, Value> {
    static TOOLS: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let listed = Client::start(&Sandbox::empty(), &agent("a"), &[]).ask("tools/list", &json!({}));
        let tools = listed["tools"].as_array().unwrap();
        tools
            .iter()
            .map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["inputSchema"].clone()))
            .collect()
    })
}

/// The command that a step names is one that the binary understands.
fn assert_command_exists(words: &[String], known: &mut BTreeSet<Vec<String>>) {
    if words.is_empty() || !known.insert(words.to_vec()) {
        return;
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = Sandbox::empty().json(&human("ann"), &words);
    // What the parser does not understand is answered with where to look it up.
    let error = &ran.json()["error"];
    assert!(error["next"] != json!(["onus help --all"]), "{words:?} does not exist: {error}");
}

/// The call that a step names is one that the server's list allows. Other words name nothing of any other interface.
fn assert_call_exists(step: &str) -> bool {
    let Some((tool, rest)) = step.split_once(" {") else {
        assert!(!tools().contains_key(step), "{step}");
        return false;
    };
    let rest = format!("{{{rest}");
    let arguments: Value = serde_json::Deserializer::from_str(&rest).into_iter().next().unwrap().unwrap();
    let schema = tools().get(tool).unwrap_or_else(|| panic!("there is no tool {tool}: {step}"));
    let validator = jsonschema::validator_for(schema).unwrap();
    assert!(validator.is_valid(&arguments), "{step}: {schema}");
    true
}

#[test]
fn every_refusal_names_steps_that_exist_where_it_is_read() {
    let typed = commands_typed();
    let (mut commands, mut calls) = (BTreeSet::new(), 0);
    let mut seen: BTreeMap<Via, BTreeSet<String>> = BTreeMap::new();
    let mut distinct: BTreeMap<(Via, bool), BTreeSet<String>> = BTreeMap::new();
    for walked in cases().iter().flat_map(|case| &case.walked) {
        let Walked { via, is_person, error, said, args } = walked;
        seen.entry(*via).or_default().insert(error["code"].as_str().unwrap().to_owned());
        let message = error["message"].as_str().unwrap().replace(|c: char| c.is_ascii_digit(), "#");
        distinct.entry((*via, *is_person)).or_default().insert(message);
        let steps = error["next"].as_array().unwrap().iter().map(|step| step.as_str().unwrap());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match via {
            Via::CommandLine => {
                let way = error["override"].as_str();
                steps.chain(way).for_each(|step| assert_command_exists(&told(step, &args), &mut commands));
            }
            Via::Mcp => {
                calls += steps.filter(|step| assert_call_exists(step)).count();
                // Of the store's place and its settings a message may speak; of other interfaces' commands never.
                assert!(!typed.is_match(said) && !said.contains("--"), "{said}");
            }
        }
    }
    let all: BTreeSet<String> =
        all_codes().into_iter().filter(|code| !COMING.contains(&code.as_str())).collect();
    assert_eq!(seen[&Via::CommandLine], all, "every code is walked on the command line");
    let mut through_mcp = seen[&Via::Mcp].clone();
    through_mcp.extend(COMMAND_LINE_ONLY.map(str::to_owned));
    assert_eq!(through_mcp, all, "every code is walked through MCP, or no tool comes under its rule");
    for ((via, is_person), messages) in &distinct {
        let least = match (via, is_person) {
            (Via::CommandLine, _) => 50,
            (Via::Mcp, false) => 25,
            (Via::Mcp, true) => 1,
        };
        assert!(messages.len() >= least, "{via:?}, people: {is_person}: only {}", messages.len());
    }
    assert!(commands.len() >= 30 && calls >= 50, "{} commands, {calls} calls", commands.len());
}

#[test]
fn no_agent_is_shown_an_override_and_people_are() {
    let mut told = BTreeSet::new();
    for walked in cases().iter().flat_map(|case| &case.walked) {
        let Walked { via, is_person, error, said, .. } = walked;
        let is_shown = error.get("override").is_some() || said.contains("--force");
        assert!(!is_shown || *is_person && *via == Via::CommandLine, "{said}");
        if is_shown {
            told.insert(error["code"].as_str().unwrap());
        }
    }
    // That it works was tried when it was said: see `works`.
    let rules = BTreeSet::from([
        "fenced",
        "gate",
        "held",
        "kept",
        "limit",
        "not_allowed",
        "not_yet",
        "tier",
        "unmet",
    ]);
    assert_eq!(told, rules, "people are told of these");
}
