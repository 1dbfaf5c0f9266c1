//! `docs/files.md`: every source file of the product with what its own comment begins with. So the list is never incomplete, and
//! a file without a story fails here.

use std::collections::BTreeMap;

use super::architecture::{below, document, is_product, quoted, table};
use super::root;
use crate::support::is_written;

const HEAD: &str = "# Every source file\n\n\
    One line per file: what its own comment begins with, or the help of its command. Which crate is which, and where to begin, is in\n\
    [ARCHITECTURE.md](../ARCHITECTURE.md); P1 to P12 are the promises in [guarantees.md](guarantees.md). `ONUS_UPDATE=1 scripts/test` writes this list.\n";

/// The longest that a line says of a file.
const MOST: usize = 320;

/// What is shorter than this is followed by the next sentence.
const SHORT: usize = 45;

#[test]
fn every_source_file_says_what_it_is_for() {
    let mut listed = HEAD.to_owned();
    for (name, files) in files() {
        listed.push_str(&format!("\n## `{name}`\n\n| file | story |\n| --- | --- |\n"));
        for (file, story) in files {
            assert!((10..=MOST).contains(&story.len()), "crates/{name}/src/{file} says of itself: {story:?}");
            listed.push_str(&format!("| `{file}` | {story} |\n"));
        }
    }
    is_written("docs/files.md", &listed);
}

#[test]
fn every_file_that_the_architecture_names_is_there() {
    let tops = ["bench", "crates", "fuzz", "sim", "tests"];
    let all: Vec<String> = tops.iter().flat_map(|top| below(top)).map(|path| format!("/{path}")).collect();
    let document = document();
    let named = quoted(&document).into_iter().filter(|name| name.ends_with(".rs") && !name.contains("NAME"));
    let missing: Vec<&str> =
        named.filter(|name| !all.iter().any(|path| path.ends_with(&format!("/{name}")))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The files of each crate, in the order of the architecture, each with what it says of itself.
fn files() -> Vec<(String, BTreeMap<String, String>)> {
    let crates = table(&document(), "| crate | what it is | stands on |");
    let names = crates.iter().map(|row| match quoted(&row[0])[0].strip_prefix("onus-") {
        Some(name) => name.to_owned(),
        None => "cli".to_owned(),
    });
    let files_of = |name: String| {
        let folder = format!("crates/{name}/src");
        let own =
            below(&folder).into_iter().filter(|path| path.strip_prefix("crates/").is_some_and(is_product));
        let told = own.map(|path| {
            let story = story(&std::fs::read_to_string(root().join(&path)).unwrap());
            (path[folder.len() + 1..].to_owned(), story)
        });
        (name, told.collect())
    };
    names.map(files_of).collect()
}

/// What a file's comment begins with; or its command's help, if it has none.
fn story(source: &str) -> String {
    let marked = |source: &str, mark: &str| {
        let lines = source.lines().skip_while(|line| !line.starts_with(mark));
        let lines = lines.map_while(|line| line.strip_prefix(mark)).map(str::trim);
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let own = marked(source, "//!");
    let text = if own.is_empty() { marked(help(source).unwrap_or(source), "///") } else { own };
    let text = text.replace("[`", "`").replace("`]", "`").replace("**", "").replace('|', "\\|");
    // A first sentence of a few words says little without the next.
    let mut sentences = text.split_inclusive(". ");
    let mut story = String::new();
    while story.len() < SHORT
        && let Some(next) = sentences.next()
    {
        story.push_str(next);
    }
    story.trim_end().to_owned()
}

/// A source from the help of its command on.
fn help(source: &str) -> Option<&str> {
    let args = source.find("\npub(crate) struct Args").or_else(|| source.find("\npub(crate) enum "))?;
    let begin = source[..args].rfind("\n\n").map_or(0, |blank| blank + 2);
    Some(&source[begin..])
}
