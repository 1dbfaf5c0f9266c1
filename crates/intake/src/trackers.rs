//! Issues of GitHub and GitLab, from their REST APIs and webhooks.
//!
//! The reference comes from the issue's own address, which both formats have and which contains host, project and number:
//! `acme/web#12` on the public site, `git.acme.example/acme/web#12` elsewhere, so that two servers' issues are two asks. The
//! number also has a field of its own; if the two disagree, the record was forged and is refused.

use serde_json::Value;

use crate::ask::{Ask, Fault, Found, Raw, host};
use crate::json::{at, is_object, names, need, need_id, text};
use crate::labels;

/// An issue of GitHub: the object of the REST API, or a webhook's payload with the same object as `issue`.
pub(crate) fn github(document: &Value) -> Result<Ask, Fault> {
    let field = prefixed(if is_object(document, "issue") { "issue." } else { "" });
    if at(document, &field("pull_request"))?.is_some() {
        return Err(Fault::new(field("pull_request"), "this is a pull request, not an issue"));
    }
    let link = need(document, &field("html_url"))?;
    let (project, number) = path(&link)?.split_once("/issues/").ok_or_else(|| not_an_issue(&link))?;
    let reference = reference(&link, "github.com", project, number, &need_id(document, &field("number"))?)?;
    if let Some(named) = text(document, "repository.full_name")?
        && !named.text.eq_ignore_ascii_case(project)
    {
        return Err(named.fault("it is not the repository that the issue's address names"));
    }
    let labels = names(document, &field("labels"), &["name"])?;
    let named = text(document, &field("type.name"))?;
    let raw = Raw {
        body: text(document, &field("body"))?,
        author: text(document, &field("user.login"))?,
        kind: named
            .and_then(|named| labels::kind(&named.text))
            .or_else(|| labels.iter().find_map(|label| labels::kind(label))),
        priority: labels::labelled_priority(&labels),
        labels: labels::tags(&labels),
        link: Some(link),
        is_tracked: true,
        ..Raw::new("github", reference, need(document, &field("title"))?)
    };
    raw.ask()
}

/// An issue of GitLab: the object of the REST API, or a webhook's payload with the issue as `object_attributes`.
pub(crate) fn gitlab(document: &Value) -> Result<Ask, Fault> {
    let is_hook = is_object(document, "object_attributes");
    let field = prefixed(if is_hook { "object_attributes." } else { "" });
    if let Some(of) = text(document, "object_kind")?
        && !matches!(of.text.as_str(), "issue" | "work_item")
    {
        return Err(of.fault("this hook does not tell of an issue"));
    }
    let link = need(document, &field(if is_hook { "url" } else { "web_url" }))?;
    let whole = path(&link)?;
    let parts = ["/-/issues/", "/-/work_items/", "/issues/"].iter().find_map(|part| whole.split_once(part));
    let (project, number) = parts.ok_or_else(|| not_an_issue(&link))?;
    let reference = reference(&link, "gitlab.com", project, number, &need_id(document, &field("iid"))?)?;
    if let Some(named) = text(document, "project.path_with_namespace")?
        && !named.text.eq_ignore_ascii_case(project)
    {
        return Err(named.fault("it is not the project that the issue's address names"));
    }
    let labels = names(document, "labels", &["title", "name"])?;
    // A hook names the user who caused it. Only the user who opened the issue is its author.
    let author = match is_hook {
        false => text(document, "author.username")?,
        true => {
            let (author, user) = (at(document, &field("author_id"))?, at(document, "user.id")?);
            text(document, "user.username")?.filter(|_| author.is_some() && author == user)
        }
    };
    let raw = Raw {
        body: text(document, &field("description"))?,
        author,
        kind: labels.iter().find_map(|label| labels::kind(label)),
        priority: labels::labelled_priority(&labels),
        labels: labels::tags(&labels),
        link: Some(link),
        is_tracked: true,
        ..Raw::new("gitlab", reference, need(document, &field("title"))?)
    };
    raw.ask()
}

fn prefixed(prefix: &'static str) -> impl Fn(&str) -> String {
    move |name| format!("{prefix}{name}")
}

/// What follows the host of an address.
fn path(link: &Found) -> Result<&str, Fault> {
    host(link)?;
    let rest = link.text.trim().split_once("://").map_or("", |(_, rest)| rest);
    Ok(rest.split_once('/').map_or("", |(_, path)| path))
}

fn not_an_issue(link: &Found) -> Fault {
    link.fault("it is not the address of an issue")
}

/// The reference of an issue by its address, if the number in the address is the issue's own.
fn reference(link: &Found, public: &str, project: &str, number: &str, own: &Found) -> Result<Found, Fault> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    if project.is_empty() || !project.contains('/') || !project.chars().all(is_plain) {
        return Err(not_an_issue(link));
    }
    if number != own.text || number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(own.fault("it is not the number that the issue's address names"));
    }
    let reference = format!("{project}#{number}");
    Ok(Found::new(
        link.field.clone(),
        match host(link)? {
            host if host == public => reference,
            host => format!("{host}/{reference}"),
        },
    ))
}
