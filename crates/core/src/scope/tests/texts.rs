//! Which texts are globs or paths, how they are written, and which are refused.

use crate::refusal::Code;
use crate::scope::{Fault, MAX_GLOB_BYTES, MAX_PATH_BYTES, Refusal, Scope, ScopeError};

use super::*;

fn fault(text: &str) -> Option<Fault> {
    match text.parse::<Glob>() {
        Ok(_) => None,
        Err(ScopeError::NotAGlob { fault, .. }) => Some(fault),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn faults_are_named() {
    let long = "a/".repeat(MAX_GLOB_BYTES) + "*";
    let longer = "a/".repeat(MAX_PATH_BYTES) + "a";
    for (text, expected) in [
        ("", Fault::Empty),
        ("/", Fault::Absolute),
        ("/src/**", Fault::Absolute),
        ("!src/**", Fault::Exception),
        (".", Fault::Dots),
        ("..", Fault::Dots),
        ("./src", Fault::Dots),
        ("src/../lib", Fault::Dots),
        ("src/./*", Fault::Dots),
        ("*/..", Fault::Dots),
        ("*/../a", Fault::Dots),
        ("./", Fault::Dots),
        ("\\./a", Fault::Dots),
        ("a/{.,b}/c", Fault::Dots),
        ("{.,x}{.,y}", Fault::Dots),
        ("a/.{,.}/b", Fault::Dots),
        ("{a/,}../b", Fault::Dots),
        ("a/{b,c/..}", Fault::Dots),
        ("a//b", Fault::EmptySegment),
        ("a//", Fault::EmptySegment),
        ("*//b", Fault::EmptySegment),
        ("a/{b,}/c", Fault::EmptySegment),
        ("{a,}/b", Fault::EmptySegment),
        ("a/{/b,c}", Fault::EmptySegment),
        ("**//a", Fault::EmptySegment),
        ("{a,}", Fault::OpenEnd),
        ("src/{a,}", Fault::OpenEnd),
        ("{a,b/}", Fault::OpenEnd),
        ("**.rs", Fault::PartOfSegment),
        ("src/a**", Fault::PartOfSegment),
        ("src/***", Fault::PartOfSegment),
        ("a**/b", Fault::PartOfSegment),
        ("{a,}**", Fault::PartOfSegment),
        ("{**,a}b", Fault::PartOfSegment),
        ("{**,a}*", Fault::PartOfSegment),
        ("{**,a}/b", Fault::DeepInBraces),
        ("{a,**}/b", Fault::DeepInBraces),
        ("[a", Fault::UnclosedClass),
        ("[]", Fault::UnclosedClass),
        ("[!]", Fault::UnclosedClass),
        ("[a-", Fault::UnclosedClass),
        ("a[/", Fault::SlashInClass),
        ("[a/b]", Fault::SlashInClass),
        ("[+-/]", Fault::SlashInClass),
        ("[[:alpha:]]", Fault::NamedClass),
        ("[z-a]", Fault::Backwards { low: 'z', high: 'a' }),
        ("[! -\u{10ffff}]", Fault::EmptyClass),
        ("{a,b", Fault::UnclosedBraces),
        ("{a,{b}", Fault::UnclosedBraces),
        ("a}", Fault::UnopenedBraces),
        ("{a}}", Fault::UnopenedBraces),
        ("{}", Fault::EmptyBraces),
        ("a/{}b", Fault::EmptyBraces),
        ("a\\", Fault::Backslash),
        ("src\\auth", Fault::Backslash),
        ("src\\/auth", Fault::Backslash),
        ("*/src\\auth", Fault::Backslash),
        ("[\\a]", Fault::Backslash),
        ("a\0b", Fault::Control),
        ("a\n", Fault::Control),
        ("*\u{85}", Fault::Control),
        ("[\t]", Fault::Control),
        ("\\\u{7f}", Fault::Control),
        (&long, Fault::TooLong { bytes: 2 * MAX_GLOB_BYTES + 1, max: MAX_GLOB_BYTES }),
        (&longer, Fault::TooLong { bytes: 2 * MAX_PATH_BYTES + 1, max: MAX_PATH_BYTES }),
    ] {
        assert_eq!(fault(text), Some(expected), "{text:?}");
    }
}

#[test]
fn what_people_write_is_understood() {
    for text in [
        "src/**",
        "**",
        "**/*.{rs,toml}",
        "a/{b/,}c",
        "a{/b,}",
        "src/{a,**}",
        "{**/,a/}b",
        "...",
        ".../a",
        "a..b",
        "{.a,..b}",
        ".{a,b}",
        "a, b",
        "]",
        "a]b",
        "-",
        "#x",
        "~/x",
        "a!",
        "*!",
        "[!!]",
        "[^^]",
        "[[]",
        "[]-]",
        "[%--]",
        "日本/*",
        "{a}",
        "{,a}b",
        "{{a,b},c}",
        "\\ a",
    ] {
        assert_eq!(fault(text), None, "{text:?}");
    }
}

#[test]
fn a_refusal_says_what_to_write() {
    let error = "src\\auth".parse::<Glob>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "'src\\\\auth' is not a glob: a backslash only escapes special characters; \
         write '/' between segments"
    );
    assert_eq!(Refusal::from(error).code, Code::Usage);
    assert_eq!(
        "a/{b,}/c".parse::<Glob>().unwrap_err().to_string(),
        "'a/{b,}/c' is not a glob: a segment is empty ('//'); if braces leave it empty, put the '/' into them: \
         'a/{b/,}c'"
    );
    assert_eq!(
        Glob::literal("../x").unwrap_err().to_string(),
        "'../x' is not a path in the repository: '.' and '..' are not allowed; write it from the repository's root, \
         without them"
    );
}

#[test]
fn one_spelling_is_kept() {
    for (typed, kept) in [
        ("dir/", "dir/**"),
        ("src/*/", "src/*/**"),
        ("a\\.b", "a.b"),
        ("\\[id\\]", "\\[id]"),
        ("\\!x", "\\!x"),
        ("x\\!", "x!"),
        ("src/**", "src/**"),
    ] {
        assert_eq!(glob(typed).as_str(), kept, "{typed}");
        assert_eq!(glob(kept).as_str(), kept, "{typed}");
    }
}

#[test]
fn a_path_is_one_whatever_characters_it_has() {
    for (path, text) in [
        ("src/main.rs", "src/main.rs"),
        ("app/[id]/page.tsx", "app/\\[id]/page.tsx"),
        ("a*b?c{d}e\\f", "a\\*b\\?c\\{d\\}e\\\\f"),
        ("!important", "\\!important"),
        ("./a//b/./c", "a/b/c"),
        ("a, b", "a, b"),
        (".env", ".env"),
        ("a\tb", "a\u{fffd}b"),
    ] {
        let literal = Glob::literal(path).unwrap();
        assert_eq!(literal.as_str(), text);
        assert_eq!(glob(text), literal);
        assert_eq!(literal.path(), Some(literal.anchor()));
        assert!(literal.matches(literal.anchor()), "{path}");
    }
    assert!(Glob::literal("a\tb").unwrap().matches("a\tb"));
    assert!(glob("a?b").matches("a\nb") && !glob("a[!x]b").matches("a/b"));
}

#[test]
fn what_is_no_path_is_not_taken_for_one() {
    let long = "x".repeat(MAX_PATH_BYTES + 1);
    let odd = "\u{1}".repeat(MAX_PATH_BYTES);
    for (path, expected) in [
        ("", Fault::Empty),
        (".", Fault::Empty),
        ("./", Fault::Empty),
        ("/etc/passwd", Fault::Absolute),
        ("..", Fault::Dots),
        ("a/../b", Fault::Dots),
        ("a/..", Fault::Dots),
        ("src/", Fault::Folder),
        ("src/.", Fault::Folder),
        ("a\0", Fault::Control),
        (&long, Fault::TooLong { bytes: MAX_PATH_BYTES + 1, max: MAX_PATH_BYTES }),
        (&odd, Fault::TooLong { bytes: 3 * MAX_PATH_BYTES, max: MAX_PATH_BYTES }),
    ] {
        let error = Glob::literal(path).unwrap_err();
        assert!(
            matches!(error, ScopeError::NotAPath { fault, .. } if fault == expected),
            "{path:?}: {error}"
        );
    }
    let longest = "*".repeat(MAX_PATH_BYTES);
    let literal = Glob::literal(&longest).unwrap();
    assert_eq!(glob(literal.as_str()), literal);
    for no_path in ["", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/./b", "a/..", "../a"] {
        assert!(!glob("**").matches(no_path), "{no_path}");
        assert!(!Scope::from(globs(&["**", "a/**"])).covers(no_path), "{no_path}");
    }
}

#[test]
fn braces_leave_a_choice_of_anchors() {
    for (text, anchors) in [
        ("src/auth/*.rs", &["src/auth/"][..]),
        ("src/a.rs", &["src/a.rs"]),
        ("{src,tests}/auth/**", &["src/auth/", "tests/auth/"]),
        ("{src,tests}/{a,b}.rs", &["src/a.rs", "src/b.rs", "tests/a.rs", "tests/b.rs"]),
        ("crates/{core,store/src}/x*", &["crates/core/", "crates/store/src/"]),
        ("{a,{b,c}/d}/*", &["a/", "b/d/", "c/d/"]),
        ("{src,src/x}/**", &["src/"]),
        ("{src/a,s*}/x", &[""]),
        ("src{,/a,/b}/*", &["src/"]),
        (
            "x/{a,b}{c,d}{e,f}{g,h}/*",
            &[
                "x/aceg/", "x/aceh/", "x/acfg/", "x/acfh/", "x/adeg/", "x/adeh/", "x/adfg/", "x/adfh/",
                "x/bceg/", "x/bceh/", "x/bcfg/", "x/bcfh/", "x/bdeg/", "x/bdeh/", "x/bdfg/", "x/bdfh/",
            ],
        ),
        ("x/{a,b}{c,d}{e,f}{g,h}{i,j}/*", &["x/"]),
    ] {
        assert_eq!(glob(text).anchors(), anchors, "{text}");
    }
}

#[test]
fn anchors_are_whole_folders_or_a_whole_path() {
    for (text, anchor) in [
        ("src/auth/*.rs", "src/auth/"),
        ("src/auth/login.rs", "src/auth/login.rs"),
        ("src/ma?n.rs", "src/"),
        ("src/{a,b}/c", "src/"),
        ("src/[ab]/c", "src/"),
        ("src/**", "src/"),
        ("dir/", "dir/"),
        ("**/x", ""),
        ("*", ""),
        ("a\\*b/c\\[/*", "a*b/c[/"),
        ("日本/語*", "日本/"),
    ] {
        assert_eq!(glob(text).anchor(), anchor, "{text}");
    }
}

#[test]
fn a_scope_knows_each_glob_once_and_what_it_covers() {
    let mut scope: Scope = globs(&["src/**", "a.rs", "src/", "*.md"]).into_iter().collect();
    assert_eq!(scope.globs(), globs(&["*.md", "a.rs", "src/**"]));
    assert!(scope.covers("src/x/y") && scope.covers("a.rs") && scope.covers("README.md"));
    assert!(!scope.covers("src") && !scope.covers("b.rs") && !scope.covers("docs/README.md"));
    assert!(!scope.insert(glob("a.rs")));
    assert!(scope.insert(glob("b.rs")) && scope.covers("b.rs"));
    assert!(scope.remove(&glob("src/**")) && !scope.remove(&glob("src/**")));
    assert!(!scope.covers("src/x/y"));
    scope.extend(globs(&["b.rs", "c.rs"]));
    assert_eq!(scope.globs().len(), 4);
}

#[test]
fn json_is_the_text_and_is_checked() {
    let scope: Scope = serde_json::from_str(r#"["src/","a.rs"]"#).unwrap();
    assert_eq!(serde_json::to_string(&scope).unwrap(), r#"["a.rs","src/**"]"#);
    let error = serde_json::from_str::<Scope>(r#"["../x"]"#).unwrap_err().to_string();
    assert!(error.contains("'.' and '..' are not allowed"), "{error}");
}
