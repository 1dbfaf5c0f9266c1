use proptest::prelude::*;

use super::*;

fn written(command: &str) -> Vec<String> {
    named(command).written.iter().map(|file| file.to_string_lossy().into_owned()).collect()
}

fn patched(command: &str) -> Vec<String> {
    named(command).patched.iter().map(|file| file.to_string_lossy().into_owned()).collect()
}

#[test]
fn plain_words_name_the_files_that_they_write() {
    for (command, files) in [
        ("echo x > a.rs", vec!["a.rs"]),
        ("echo x>>'a b.rs'", vec!["a b.rs"]),
        ("make 2>err.log >| out.log", vec!["err.log", "out.log"]),
        ("make &> all.log", vec!["all.log"]),
        ("make >& all.log", vec!["all.log"]),
        ("> a.rs", vec!["a.rs"]),
        ("cat <<EOF > a.rs\nrm b.rs\nEOF\nrm c.rs", vec!["a.rs", "c.rs"]),
        ("cat x | tee -a a.rs b.rs | wc", vec!["a.rs", "b.rs"]),
        ("sed -i 's/a/b/' a.rs b.rs", vec!["a.rs", "b.rs"]),
        ("sed -i.bak -e 's/a/b/' a.rs", vec!["a.rs"]),
        ("sed -nEi '' 's/a/b/' a.rs", vec!["a.rs"]),
        ("sed --in-place --expression 's/a/b/' a.rs", vec!["a.rs"]),
        ("mv a.rs b.rs", vec!["a.rs", "b.rs", "b.rs/a.rs"]),
        ("mv -t old src/a.rs", vec!["old", "old/a.rs", "src/a.rs"]),
        ("cp -r src/a.rs dst", vec!["dst", "dst/a.rs"]),
        ("cp --target-directory=dst src/a.rs", vec!["dst", "dst/a.rs"]),
        ("rm -f -- a.rs -b.rs", vec!["-b.rs", "a.rs"]),
        ("git checkout -- a.rs", vec!["a.rs"]),
        ("git checkout HEAD~1 -- a.rs b.rs", vec!["a.rs", "b.rs"]),
        ("git -C sub restore --source HEAD a.rs", vec!["sub/a.rs"]),
        ("git restore -SW -- a.rs && git restore --staged --worktree b.rs", vec!["a.rs", "b.rs"]),
        ("FOO=1 BAR='x y' rm a.rs", vec!["a.rs"]),
        ("if true; then rm a.rs; else rm b.rs; fi", vec!["a.rs", "b.rs"]),
        ("for f in 1 2; do rm a.rs; done", vec!["a.rs"]),
        ("cd src && rm a.rs; rm /tmp/b.rs", vec!["/tmp/b.rs", "src/a.rs"]),
        ("rm \\\n  a.rs # and > b.rs\nrm c.rs", vec!["a.rs", "c.rs"]),
        ("cd src | cat; rm a.rs", vec!["a.rs"]),
        ("rm a.rs & rm b.rs || rm c.rs", vec!["a.rs", "b.rs", "c.rs"]),
        ("echo $HOME > a.rs", vec!["a.rs"]),
    ] {
        assert_eq!(written(command), files, "{command}");
    }
}

#[test]
fn what_is_not_plain_is_not_guessed() {
    for command in [
        "echo '> a.rs'",
        "echo \"> a.rs; rm b.rs\"",
        "echo \\> a.rs",
        "grep -n 'rm a.rs' notes",
        "echo x > $FILE",
        "echo x > \"$DIR/a.rs\"",
        "echo x > ${FILE}",
        "rm *.rs ?.rs [ab].rs a{1,2}.rs ~/a.rs",
        "sed -n 's/a/b/' a.rs",
        "sed 's/-i/b/' a.rs",
        "cp a.rs",
        "cp a.rs b.rs $(target)",
        "bash -c 'rm a.rs'",
        "eval 'rm a.rs'",
        "xargs rm a.rs",
        "(rm a.rs)",
        "`rm a.rs`",
        "echo $(rm a.rs) > b.rs",
        "[[ a > b.rs ]] && rm c.rs",
        "case x in a) rm a.rs;; esac",
        "f() { rm a.rs; }",
        "cat <<'EOF'\nrm a.rs\n> b.rs\nEOF",
        "cat <<EOF\nrm a.rs\n",
        "echo x 2>&1 >&2 <a.rs",
        "git checkout main",
        "git checkout a.rs",
        "git restore --staged a.rs",
        "git commit -m 'x' -- a.rs",
        "cd \"$X\" && rm a.rs",
        "cd -; rm a.rs",
        "pushd src; rm a.rs",
        "rm 'a.rs",
        "rm \"a.rs",
    ] {
        assert_eq!(named(command), Named::default(), "{command}");
    }
}

#[test]
fn patches_in_a_command_are_edits() {
    let patch = "*** Begin Patch\n*** Update File: f.txt\n@@\n-three\n+3\n*** Add File: new dir/g.txt\n+x\n*** End Patch";
    for command in [
        format!("apply_patch <<'EOF'\n{patch}\nEOF"),
        format!("apply_patch <<EOF\n{patch}\nEOF\n"),
        format!("apply_patch '{patch}'"),
        format!("cat <<'EOF' | apply_patch\n{patch}\nEOF"),
        format!("true && apply_patch <<-EOF\n\t{patch}\n\tEOF\necho done"),
    ] {
        assert_eq!(patched(&command), ["f.txt", "new dir/g.txt"], "{command}");
        assert!(written(&command).is_empty(), "{command}");
    }
    assert_eq!(
        patched(&format!("cd src && apply_patch <<'EOF'\n{patch}\nEOF")),
        ["src/f.txt", "src/new dir/g.txt"]
    );
    // Text that is only printed is not a patch, and an expanded name is unknown.
    assert!(patched(&format!("cat <<'EOF'\n{patch}\nEOF")).is_empty());
    assert!(patched(&format!("echo '{patch}'")).is_empty());
    assert!(patched("apply_patch <<EOF\n*** Add File: $NAME\nEOF").is_empty());
    assert_eq!(patched("apply_patch <<'EOF'\n*** Add File: $NAME\nEOF"), ["$NAME"]);
}

fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~\n\t]{0,12}",
        any::<String>(),
        prop::sample::select(
            &[
                "rm ",
                "a.rs",
                ">",
                ">>",
                "<<EOF\n",
                "EOF\n",
                "'",
                "\"",
                "\\",
                "$",
                "${",
                "}",
                "$(",
                ")",
                "`",
                "|",
                "&&",
                ";",
                "\n",
                "sed -i ",
                "mv ",
                "cp ",
                "tee ",
                "git checkout -- ",
                "cd ",
                "#",
                "2>",
                "&",
                "{",
                "[[",
            ][..]
        )
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn whatever_the_command_it_is_read_to_its_end(parts in prop::collection::vec(fragment(), 0..24)) {
        let command = parts.concat();
        let Named { patched, written } = named(&command);
        prop_assert!(patched.len() <= MAX_FILES && written.len() <= MAX_FILES);
    }

    /// However a text is quoted, printing it names nothing; as an operand it names itself.
    #[test]
    fn quoting_invents_no_file(parts in prop::collection::vec(fragment(), 0..12)) {
        let text = parts.concat().replace('\0', "");
        let quoted = shlex::try_quote(&text).unwrap().into_owned();
        prop_assert_eq!(named(&format!("echo {quoted}")), Named::default());
        prop_assert_eq!(named(&format!("grep -e {quoted} notes; true")), Named::default());
        if !text.is_empty() && text != "/" {
            let found = named(&format!("rm -- {quoted}")).written;
            prop_assert_eq!(found, [PathBuf::from(&text)]);
        }
    }

    /// A here-document is text, whatever is in it.
    #[test]
    fn a_here_document_names_no_file(lines in prop::collection::vec(fragment(), 0..8)) {
        let text = lines.concat().replace('\r', "");
        prop_assume!(!text.lines().any(|line| line == "ENDOFTEXT"));
        prop_assert_eq!(named(&format!("cat <<'ENDOFTEXT'\n{text}\nENDOFTEXT\n")), Named::default());
    }

    /// Words are split as any shell splits them.
    #[test]
    fn words_are_what_a_shell_makes_of_them(words in prop::collection::vec("[ -~]{0,8}", 1..6)) {
        let line = shlex::try_join(words.iter().map(String::as_str)).unwrap();
        let script = Script::read(&format!("x {line}"));
        let read: Vec<&str> = script.commands[0].words[1..].iter().map(|word| word.text.as_str()).collect();
        prop_assert_eq!(read, words.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
