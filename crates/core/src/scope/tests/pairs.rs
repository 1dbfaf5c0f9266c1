//! Pairs of globs with the right answer: the example that must be given, or none.

use super::*;

#[test]
fn the_table_of_pairs() {
    let table: &[(&str, &str, Option<&str>)] = &[
        // Plain paths.
        ("a", "a", Some("a")),
        ("a", "b", None),
        ("src/a.rs", "src/a.rs", Some("src/a.rs")),
        ("src/a.rs", "src/a.r", None),
        ("src/a", "src/a/b", None),
        ("README.md", "readme.md", None),
        // A path and a glob.
        ("a/c/d", "a/{b,c}/**", Some("a/c/d")),
        ("a/d/d", "a/{b,c}/**", None),
        ("src/main.rs", "src/*.rs", Some("src/main.rs")),
        ("src/bin/main.rs", "src/*.rs", None),
        ("src", "src/**", None),
        ("src/a", "src/**", Some("src/a")),
        ("src/a/b/c", "src/**", Some("src/a/b/c")),
        ("srcs/a", "src/**", None),
        ("x", "**/x", Some("x")),
        ("a/b/x", "**/x", Some("a/b/x")),
        ("ax", "**/x", None),
        ("Cargo.lock", "**", Some("Cargo.lock")),
        (".github/ci.yml", "*/ci.yml", Some(".github/ci.yml")),
        // Folders.
        ("dir/", "dir/a", Some("dir/a")),
        ("dir/", "dir", None),
        ("dir/", "dir/a/b", Some("dir/a/b")),
        ("dir/", "dir/**", Some("dir/a")),
        ("dir/sub/", "dir/", Some("dir/sub/a")),
        ("dir/", "dirs/", None),
        ("*/", "a", None),
        ("*/", "a/*", Some("a/a")),
        // One star.
        ("src/*/mod.rs", "src/auth/*", Some("src/auth/mod.rs")),
        ("src/*/mod.rs", "src/auth/*.md", None),
        ("src/*/mod.rs", "src/*", None),
        ("*", "*", Some("a")),
        ("*", "a/*", None),
        ("*a", "b*", Some("ba")),
        ("a*", "*a", Some("a")),
        ("a*b", "*c*", Some("acb")),
        ("*.rs", "*.rs.bak", None),
        ("*.rs", "lib.*", Some("lib.rs")),
        ("a*b*c", "c*b*a", None),
        ("*a*", "*b*", Some("ab")),
        ("x*y", "xy", Some("xy")),
        (".*", "..*", Some("..a")),
        (".*", ".*", Some(".a")),
        ("*/*", "*", None),
        ("*/*/c", "a/*/*", Some("a/a/c")),
        // Two stars.
        ("**/*.rs", "src/**", Some("src/.rs")),
        ("**/x", "x", Some("x")),
        ("**/x", "**/y", None),
        ("**/x/**", "x/y", Some("x/y")),
        ("**/x/**", "x", None),
        ("**/x/**", "**/y/**", Some("y/x/a")),
        ("a/**/b", "a/b", Some("a/b")),
        ("a/**/b", "a/*", Some("a/b")),
        ("a/**/b", "a/*/*/*", Some("a/a/a/b")),
        ("a/**/b/**/c", "a/*/c", Some("a/b/c")),
        ("a/**/b/**/c", "a/c", None),
        ("a/**/b/**/c", "a/*/*/c", Some("a/b/a/c")),
        ("**", "**", Some("a")),
        ("**/**/a", "a", Some("a")),
        ("a/**/**", "a", None),
        ("**/a", "a/**", Some("a/a")),
        ("**/test_*.py", "tests/**/*_db.py", Some("tests/test_db.py")),
        ("**/*.rs", "**/*.md", None),
        // One character.
        ("?", "*", Some("a")),
        ("?", "??", None),
        ("??", "a*", Some("aa")),
        ("a?c", "a/c", None),
        ("?/?", "*", None),
        ("?", "é", Some("é")),
        ("?", "{.a,b}", Some("b")),
        // Classes.
        ("[a-f]", "[g-z]", None),
        ("[a-g]", "[g-z]", Some("g")),
        ("[abc]x", "[!abc]x", None),
        ("[!a]", "[!b]", Some("c")),
        ("[!a-z]", "[a-z]*", None),
        ("[^a-z]*", "*", Some("0")),
        ("a[!b]c", "a/c", None),
        ("a[+-9]c", "a/c", None),
        ("a[+-9]c", "a.c", Some("a.c")),
        ("v[0-9].[0-9]", "v?.5", Some("v0.5")),
        ("[]a]", "]", Some("]")),
        ("[!]a]", "]", None),
        ("[a-]", "-", Some("-")),
        ("[-a]", "-", Some("-")),
        ("[a\\-c]", "b", None),
        ("[α-ω]", "[β-δ]", Some("β")),
        ("[.]", "*", None),
        ("[.][.]", "**", None),
        ("[.]a", "*", Some(".a")),
        // Braces.
        ("a/{b,c}/**", "a/c/d", Some("a/c/d")),
        ("a/{b,c}/**", "a/d/**", None),
        ("{a,b}", "{c,d}", None),
        ("{a,b}", "{b,c}", Some("b")),
        ("{a,b/c}", "b/*", Some("b/c")),
        ("{a,{b,c}d}e", "cde", Some("cde")),
        ("{a,{b,c}d}e", "ce", None),
        ("x{,y}z", "xz", Some("xz")),
        ("a/{b/,}c", "a/c", Some("a/c")),
        ("src/{a,**}", "src/x/y", Some("src/x/y")),
        ("{src,lib}/**/*.{rs,toml}", "lib/x/*.toml", Some("lib/x/.toml")),
        ("*.{rs,md}", "*.{toml,lock}", None),
        ("{one}", "one", Some("one")),
        ("{{*},b?}", "*b", Some("b")),
        ("a,b", "a,b", Some("a,b")),
        // Escapes.
        ("\\*", "a", None),
        ("\\*", "*", Some("*")),
        ("\\[a\\]", "a", None),
        ("\\[a\\]", "[[]a]", Some("[a]")),
        ("\\{a,b\\}", "a", None),
        ("\\{a,b\\}", "*,*", Some("{a,b}")),
        ("\\!a", "?a", Some("!a")),
        ("a\\\\b", "a?b", Some("a\\b")),
        ("{\\,,x}", ",", Some(",")),
        ("a\\.b", "a.b", Some("a.b")),
    ];
    for (left, right, answer) in table {
        assert_eq!(example(left, right, &[]).as_deref(), *answer, "{left} × {right}");
        assert_eq!(
            example(right, left, &[]).map(|path| path.chars().count()),
            answer.map(|path| path.chars().count()),
            "{right} × {left}"
        );
    }
    assert!(table.len() >= 60);
}

#[test]
fn shared_paths_are_no_collision() {
    let table: &[(&str, &str, &[&str], Option<&str>)] = &[
        ("Cargo.lock", "Cargo.lock", &["Cargo.lock"], None),
        ("Cargo.lock", "*", &["**/*.lock"], None),
        ("**", "**", &["**"], None),
        ("**", "**", &["a"], Some("b")),
        ("**", "**", &["?", "*/**"], Some("aa")),
        ("**", "**", &["?", "??"], Some("aaa")),
        ("**", "**", &["*"], Some("a/a")),
        ("**", "**", &["*", "*/*"], Some("a/a/a")),
        ("src/**", "src/**", &["src/**/*.lock"], Some("src/a")),
        ("*.lock", "*.lock", &["*.lock"], None),
        ("*.lock", "*.lock", &["Cargo.lock"], Some(".lock")),
        ("{a,b}", "{a,b}", &["a"], Some("b")),
        ("{a,b}", "{a,b}", &["a", "b"], None),
        ("{a,b}", "{a,b}", &["{a,b}"], None),
        ("?", "?", &["[a-z]"], Some("0")),
        ("?", "?", &["[!a-z]"], Some("a")),
        ("?", "?", &["[!a-z]", "[a-y]"], Some("z")),
        ("?", "?", &["[!a-z]", "[a-z]"], None),
        ("docs/**", "docs/a/**", &["docs/**"], None),
        ("docs/**", "docs/a/**", &["docs/a/*"], Some("docs/a/a/a")),
        ("docs/**", "docs/a/**", &["docs/a/b/c/*"], Some("docs/a/a")),
        ("a/*", "a/*", &["a/**/b", "**/a"], Some("a/c")),
        ("*a", "*a", &["a", "?a"], Some("aaa")),
        ("a*", "a*", &["*a"], Some("ab")),
        ("a*a", "a*a", &["a*"], None),
        ("a/b", "a/b", &["a/c", "b/**"], Some("a/b")),
    ];
    for (left, right, shared, answer) in table {
        assert_eq!(example(left, right, shared).as_deref(), *answer, "{left} × {right} without {shared:?}");
    }
}

#[test]
fn the_shortest_example_of_all_pairs_is_given_and_names_its_globs() {
    let a = globs(&["docs/**", "src/auth/**", "src/*.rs"]);
    let b = globs(&["lib/**", "src/auth/login.rs", "src/a.rs", "src/b.rs"]);
    let witness = overlap(&a, &b, &[]).unwrap();
    assert_eq!(witness, Some(Witness { path: "src/a.rs".to_owned(), left: 2, right: 2 }));
    let witness = overlap(&a, &b, &globs(&["src/?.rs"])).unwrap();
    assert_eq!(witness, Some(Witness { path: "src/auth/login.rs".to_owned(), left: 1, right: 1 }));
    assert_eq!(overlap(&a, &b, &globs(&["src/**"])), Ok(None));
    assert_eq!(overlap::<Glob>(&a, &[], &[]), Ok(None), "no scope reserves nothing");
    let first = overlap(&globs(&["x/?", "y/?", "z"]), &globs(&["y/*", "x/*"]), &[]).unwrap();
    assert_eq!(first, Some(Witness { path: "x/a".to_owned(), left: 0, right: 1 }), "of equals the first");
}
