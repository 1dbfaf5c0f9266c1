//! What each mapper makes of real deliveries of its channel, and of impossible ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::path::Path;

use onus_core::task::{Priority, TaskType};
use onus_intake::{Ask, Channel, Mapper, Paths};
use serde_json::{Value, json};

fn sample(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/intake");
    std::fs::read(folder.join(name)).unwrap()
}

fn mapper(channel: &str) -> Mapper<'static> {
    Mapper::of(Channel::named(channel).unwrap()).unwrap()
}

#[track_caller]
fn read(channel: &str, name: &str) -> Ask {
    mapper(channel).read(&sample(name)).unwrap()
}

/// The parts of an ask that every channel has.
#[track_caller]
fn says(ask: &Ask, origin: &str, title: &str, body: Option<&str>, author: Option<&str>, link: Option<&str>) {
    assert_eq!(ask.origin.as_str(), origin);
    assert_eq!(ask.title, title);
    assert_eq!(ask.body.as_deref(), body);
    assert_eq!(ask.author.as_deref(), author);
    assert_eq!(ask.link.as_deref(), link);
}

fn tags(ask: &Ask) -> Vec<&str> {
    ask.labels.iter().map(String::as_str).collect()
}

#[test]
fn an_issue_of_github_by_its_api_and_by_its_webhook() {
    let ask = read("github", "github-rest.json");
    let link = "https://github.com/acme/web/issues/12";
    let body = "Steps:\n\n1. open /login\n2. see error";
    says(&ask, "github:acme/web#12", "Login fails on Safari", Some(body), Some("ann"), Some(link));
    assert_eq!((ask.kind, ask.priority), (Some(TaskType::Bug), Some(Priority::P1)));
    assert_eq!(tags(&ask), ["P1", "bug", "good-first-issue"]);
    assert_eq!(ask.tracked, Some(("github".to_owned(), "acme/web#12".to_owned())));
    let ask = read("github", "github-webhook.json");
    let link = "https://git.acme.example/acme/web/issues/7";
    says(&ask, "github:git.acme.example/acme/web#7", "Dark mode", None, Some("zoe"), Some(link));
    assert_eq!((ask.kind, ask.priority), (Some(TaskType::Feature), None));
}

#[test]
fn an_issue_of_gitlab_by_its_api_and_by_its_webhook() {
    let ask = read("gitlab", "gitlab-rest.json");
    let link = "https://gitlab.com/acme/platform/web/-/issues/6";
    let (title, body) = ("Consequatur vero maxime deserunt", Some("It is slow."));
    says(&ask, "gitlab:acme/platform/web#6", title, body, Some("eileen.lowe"), Some(link));
    assert_eq!(tags(&ask), ["P2", "performance"]);
    let ask = read("gitlab", "gitlab-webhook.json");
    let link = "https://git.example.com/gitlab-org/gitlab-test/-/issues/23";
    let body = Some("Create new API for manipulations with repository");
    let origin = "gitlab:git.example.com/gitlab-org/gitlab-test#23";
    says(&ask, origin, "New API: create/update/delete file", body, Some("root"), Some(link));
    assert_eq!(tags(&ask), ["API"]);
    // The user who edits an issue is not its author.
    let mut edited: Value = serde_json::from_slice(&sample("gitlab-webhook.json")).unwrap();
    edited["user"]["id"] = json!(2);
    assert_eq!(mapper("gitlab").read(edited.to_string().as_bytes()).unwrap().author, None);
}

#[test]
fn an_issue_of_jira_in_both_formats() {
    let ask = read("jira", "jira-rest.json");
    let body = "Ordering fails\nsince Monday.\n- cart\n- @mia";
    let (origin, link) = ("jira:acme.atlassian.net/WEB-7", "https://acme.atlassian.net/browse/WEB-7");
    says(&ask, origin, "Main order flow broken", Some(body), Some("Mia Krystof"), Some(link));
    assert_eq!((ask.kind, ask.priority), (Some(TaskType::Bug), Some(Priority::P1)));
    assert_eq!(tags(&ask), ["checkout", "customer-reported"]);
    assert_eq!(ask.tracked, Some(("jira".to_owned(), "WEB-7".to_owned())));
    let ask = read("jira", "jira-webhook.json");
    let (origin, link) =
        ("jira:tracker.acme.example/jira/OPS_2-41", "https://tracker.acme.example/jira/browse/OPS_2-41");
    says(&ask, origin, "Renew certificates", Some("h1. Soon\nthey expire"), Some("Bob"), Some(link));
    assert_eq!(
        (ask.kind, ask.priority),
        (Some(TaskType::Task), None),
        "a name that is not plain says nothing"
    );
}

#[test]
fn a_message_and_its_thread_are_one_ask() {
    let ask = read("chat", "chat.json");
    let link = "https://acme.slack.example/archives/C024BE91L/p1762074840000005";
    let (title, body) = ("The build is red since noon", Some("somebody please look at it"));
    says(&ask, "chat:C024BE91L/1762074840.000005", title, body, Some("U2147483697"), Some(link));
    let reply = read("chat", "chat-reply.json");
    assert!(reply.is_reply && !ask.is_reply);
    assert_eq!(reply.origin, ask.origin);
    let long = json!({"channel": "c", "id": 1, "text": "x".repeat(500)});
    let ask = mapper("chat").read(long.to_string().as_bytes()).unwrap();
    assert_eq!((ask.title.chars().count(), ask.body.unwrap().len()), (121, 500));
}

#[test]
fn a_mail_with_a_folded_subject() {
    let ask = read("mail", "mail-plain.eml");
    let body =
        "Hello,\n\nsince yesterday the login page says \"wrong password\"\nright after a reset.\n\nAnn";
    let (origin, title) = ("mail:<20261102081400.1@customer.example>", "Login fails after a password reset");
    let (author, link) = ("Ann Example <ann@customer.example>", "mid:20261102081400.1@customer.example");
    says(&ask, origin, title, Some(body), Some(author), Some(link));
    assert!(!ask.is_reply);
}

#[test]
fn a_reply_is_the_ask_of_the_mail_that_began_its_thread() {
    let (first, reply) = (read("mail", "mail-plain.eml"), read("mail", "mail-reply.eml"));
    assert_eq!(first.origin, reply.origin);
    assert!(reply.is_reply);
    // The oldest mail of the thread comes first.
    let mail = b"Message-ID: <c@x>\nReferences: <a@x>\n <b@x>\nIn-Reply-To: <b@x>\nSubject: s\n\nx\n";
    assert_eq!(mapper("mail").read(mail).unwrap().origin.as_str(), "mail:<a@x>");
    let mail = b"Message-ID: <c@x>\nIn-Reply-To: <b@x>\nSubject: s\n\nx\n";
    assert_eq!(mapper("mail").read(mail).unwrap().origin.as_str(), "mail:<b@x>");
    let mail = b"Message-ID: <c@x>\nReferences: <c@x>\nSubject: s\n\nx\n";
    assert!(!mapper("mail").read(mail).unwrap().is_reply, "nothing answers itself");
}

#[test]
fn an_html_only_mail_in_another_character_set_is_its_text() {
    let ask = read("mail", "mail-html.eml");
    assert_eq!(ask.title, "Rückruf nötig");
    assert_eq!(ask.author.as_deref(), Some("Zürich Ops <ops@zh.example>"));
    assert_eq!(ask.link.as_deref(), Some("https://lists.zh.example/ops/2026/11/1"));
    let body = ask.body.unwrap();
    assert!(body.contains("Bitte zurückrufen & prüfen.") && body.contains("Grüße"), "{body}");
    assert!(!body.contains(['<', '>']) && !body.contains("alert") && !body.contains("color"), "{body}");
}

#[test]
fn attachments_are_named_and_not_kept() {
    let ask = read("mail", "mail-attachment.eml");
    assert_eq!(ask.title, "てすと");
    let body = "テスト 現状\n\n[attachments, not kept: invoice.pdf, schön\\u{202e}.png]";
    assert_eq!(ask.body.as_deref(), Some(body));
}

#[test]
fn any_json_by_field_paths() {
    let path = |text: &str| text.parse().unwrap();
    let paths = Paths {
        reference: path("ticket.id"),
        title: path("ticket.head.line"),
        body: Some(path("ticket.notes.0.text")),
        link: Some(path("ticket.url")),
        author: Some(path("ticket.by")),
        labels: Some(path("ticket.marks")),
        kind: Some(path("ticket.kind")),
        priority: Some(path("ticket.level")),
    };
    let ask = Mapper::Paths("desk", &paths).read(&sample("own.json")).unwrap();
    let link = "https://desk.acme.example/t/4711";
    says(&ask, "desk:4711", "Printer on fire", Some("third floor"), Some("Mia"), Some(link));
    assert_eq!((ask.kind, ask.priority), (Some(TaskType::Bug), Some(Priority::P1)));
    assert_eq!(tags(&ask), ["hardware"]);
    for bad in ["", ".", "a..b", "a b", "a.\n", &"a.".repeat(20), &"x".repeat(300)] {
        assert!(bad.parse::<onus_intake::FieldPath>().is_err(), "{bad:?}");
    }
}

/// A sample, one changed field of it, and the field that the fault names.
#[test]
fn what_is_wrong_is_named_by_the_field_it_is_in() {
    let missing = Value::Null;
    for (channel, name, at, to, field) in [
        ("github", "github-rest.json", "/title", missing.clone(), "title is missing"),
        ("github", "github-rest.json", "/title", json!(7), "title: expected a string, found a number"),
        ("github", "github-rest.json", "/title", json!("  "), "title: empty"),
        ("github", "github-rest.json", "/body", json!(["x"]), "body: expected a string, found a list"),
        ("github", "github-rest.json", "/body", json!("x".repeat(10 << 20)), "body: it has 10485760 bytes"),
        ("github", "github-rest.json", "/body", json!("a\0b"), "body: it contains a NUL character"),
        ("github", "github-rest.json", "/user", json!("ann"), "user: expected an object, found a string"),
        ("github", "github-rest.json", "/labels", json!({}), "labels: expected a list, found an object"),
        ("github", "github-rest.json", "/labels/1", json!(7), "labels.1: expected a label, found a number"),
        ("github", "github-rest.json", "/number", json!(13), "number: it is not the number"),
        ("github", "github-rest.json", "/number", missing.clone(), "number is missing"),
        ("github", "github-rest.json", "/html_url", missing.clone(), "html_url is missing"),
        (
            "github",
            "github-rest.json",
            "/html_url",
            json!("javascript:x"),
            "html_url: it must be a web address",
        ),
        (
            "github",
            "github-rest.json",
            "/html_url",
            json!("https://github.com/acme/web/pull/12"),
            "html_url: it is not the address of an issue",
        ),
        (
            "github",
            "github-rest.json",
            "/html_url",
            json!("https://github.com@evil.example/a/b/issues/12"),
            "html_url: its host",
        ),
        ("github", "github-rest.json", "/milestone", json!({"x": 1}), ""),
        ("github", "github-webhook.json", "/issue/title", missing.clone(), "issue.title is missing"),
        (
            "github",
            "github-webhook.json",
            "/repository/full_name",
            json!("evil/web"),
            "repository.full_name: ",
        ),
        ("gitlab", "gitlab-rest.json", "/iid", json!("x"), "iid: it is not the number"),
        ("gitlab", "gitlab-rest.json", "/web_url", missing.clone(), "web_url is missing"),
        ("gitlab", "gitlab-webhook.json", "/object_kind", json!("note"), "object_kind: "),
        (
            "gitlab",
            "gitlab-webhook.json",
            "/object_attributes/title",
            json!({}),
            "object_attributes.title: expected a string",
        ),
        (
            "gitlab",
            "gitlab-webhook.json",
            "/project/path_with_namespace",
            json!("a/b"),
            "project.path_with_namespace: ",
        ),
        ("jira", "jira-rest.json", "/key", json!("../x"), "key: it is not the key of an issue"),
        ("jira", "jira-rest.json", "/self", json!("https://acme.example/x"), "self: it is not the address"),
        ("jira", "jira-rest.json", "/fields/summary", missing.clone(), "fields.summary is missing"),
        (
            "jira",
            "jira-rest.json",
            "/fields/description",
            json!(1),
            "fields.description: expected a string or a document",
        ),
        ("jira", "jira-webhook.json", "/issue/fields", missing.clone(), "issue.fields.summary is missing"),
        ("chat", "chat.json", "/ts", missing.clone(), "id is missing"),
        ("chat", "chat.json", "/ts", json!(1762074840.000005), "ts: expected a whole number or a string"),
        ("chat", "chat.json", "/text", missing.clone(), "text is missing"),
        ("chat", "chat.json", "/channel", json!("a/b"), "channel: "),
        ("chat", "chat.json", "/channel", json!("x".repeat(600)), "ts: a reference has 1 to 495 bytes"),
        (
            "chat",
            "chat.json",
            "/permalink",
            json!("file:///etc/passwd"),
            "permalink: it must be a web address",
        ),
    ] {
        let mut document: Value = serde_json::from_slice(&sample(name)).unwrap();
        *document.pointer_mut(at).unwrap_or_else(|| panic!("{name} has no {at}")) = to;
        match mapper(channel).read(document.to_string().as_bytes()) {
            Ok(_) => assert_eq!(field, "", "{name} {at}"),
            Err(fault) => {
                assert!(!field.is_empty() && fault.to_string().starts_with(field), "{name} {at}: {fault}");
            }
        }
    }
    let mut pull: Value = serde_json::from_slice(&sample("github-rest.json")).unwrap();
    pull["pull_request"] = json!({"url": "x"});
    assert_eq!(mapper("github").read(pull.to_string().as_bytes()).unwrap_err().field, "pull_request");
}

#[test]
fn a_mail_that_contradicts_itself_is_refused_by_its_header() {
    let id = "Message-ID: <1@x>\n";
    let nested = format!("{id}Subject: s\n{}", "Content-Type: message/rfc822\n\n".repeat(200_000));
    for (mail, fault) in [
        ("Subject: s\n\nx\n".to_owned(), "Message-ID is missing"),
        (format!("{id}\nx\n"), "Subject is missing"),
        (format!("{id}Subject: \n\nx\n"), "Subject is missing"),
        (format!("{id}Subject: s\nMessage-ID: <2@x>\n\nx\n"), "Message-ID: it is there 2 times"),
        (format!("{id}Subject: s\nsubject: t\n\nx\n"), "Subject: it is there 2 times"),
        (format!("{id}Subject: s\nFrom: a@x\nFrom: b@x\n\nx\n"), "From: it is there 2 times"),
        (format!("{id}Subject: s\nReferences: <a@x>\nReferences: <b@x>\n\nx\n"), "References: it is there 2"),
        ("Message-ID: <1@x> <2@x>\nSubject: s\n\nx\n".to_owned(), "Message-ID: it names 2 mails"),
        ("Message-ID: not an id\nSubject: s\n\nx\n".to_owned(), "Message-ID: it is not a message id"),
        (format!("Message-ID: <{}@x>\nSubject: s\n\nx\n", "1".repeat(600)), "Message-ID: a reference has"),
        (format!("{id}Subject: s\n\n{}", "x".repeat(10 << 20)), "body: it has 10485760 bytes"),
        (nested, "Content-Type: the mail has more than 1000 parts"),
        ("\n\nno headers\n".to_owned(), "Message-ID is missing"),
        (String::new(), "not a mail message: no headers"),
    ] {
        let refused = mapper("mail").read(mail.as_bytes()).unwrap_err().to_string();
        assert!(refused.starts_with(fault), "{:?}: {refused}", &mail[..mail.len().min(80)]);
    }
    // A header cannot begin another: what follows a line break stays in its value.
    let forged =
        format!("{id}Subject: =?utf-8?Q?a=0D=0AMessage-ID:_<2@x>?=\nFrom: =?utf-8?Q?b=0Ac?= <b@x>\n\nx\n");
    let ask = mapper("mail").read(forged.as_bytes()).unwrap();
    assert_eq!((ask.title.as_str(), ask.origin.as_str()), ("a Message-ID: <2@x>", "mail:<1@x>"));
    assert_eq!(ask.author.as_deref(), Some("b c <b@x>"));
}

#[test]
fn what_is_larger_than_a_channel_delivers_is_not_read() {
    let bytes = vec![b' '; onus_intake::MAX_JSON_BYTES + 1];
    assert_eq!(mapper("chat").read(&bytes).unwrap_err().field, "");
}

#[test]
fn however_an_issues_address_is_spelled_it_is_one_ask() {
    let github = |link: &str| {
        let issue = json!({"html_url": link, "number": 12, "title": "t"});
        mapper("github").read(issue.to_string().as_bytes()).unwrap().origin
    };
    let usual = github("https://github.com/acme/web/issues/12");
    for other in [
        "https://github.com:443/acme/web/issues/12",
        "https://GitHub.com/Acme/Web/issues/12",
        "https://github.com./acme/web/issues/12",
        "http://github.com:80/ACME/web/issues/12",
    ] {
        assert_eq!(github(other), usual, "{other}");
    }
    // Another port, or another server, is another place.
    for other in ["https://github.com:8443/acme/web/issues/12", "https://github.com:80/acme/web/issues/12"] {
        assert_ne!(github(other), usual, "{other}");
    }
    let gitlab = |link: &str| {
        let issue = json!({"web_url": link, "iid": 6, "title": "t"});
        mapper("gitlab").read(issue.to_string().as_bytes()).unwrap().origin
    };
    let own = gitlab("https://git.acme.example/group/web/-/issues/6");
    assert_eq!(own, gitlab("https://git.acme.example:443/Group/Web/-/issues/6"));
    assert_eq!(own.as_str(), "gitlab:git.acme.example/group/web#6");
    // Given by hand it is the same.
    assert_eq!("gitlab:git.acme.example/Group/web#6".parse(), Ok(own));
}

#[test]
fn a_record_with_a_key_twice_is_refused_by_its_name() {
    let twice = br#"{"html_url":"https://github.com/a/b/issues/1","number":1,"number":2,"title":"t"}"#;
    let fault = mapper("github").read(twice).unwrap_err().to_string();
    assert!(fault.contains("number") && fault.contains("occurs twice"), "{fault}");
    let twice = br#"{"channel":"ops","id":1,"text":"a","text":"b"}"#;
    let fault = mapper("chat").read(twice).unwrap_err().to_string();
    assert!(fault.contains("text") && fault.contains("occurs twice"), "{fault}");
}
