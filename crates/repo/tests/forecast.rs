//! Conflicts that git will have are foreseen, each once and where it belongs, and foreseeing them touches nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use onus_core::scope::Scope;
use onus_repo::discover;
use onus_repo::forecast::{Asked, ConflictNews, Forecast, Forecasted, With};
use tempfile::TempDir;

#[path = "../../../tests/support/git.rs"]
mod git;

/// Long enough for a slow machine.
const LONG: Duration = Duration::from_secs(300);

struct Ground {
    folder: TempDir,
}

impl Ground {
    /// A repository whose main branch has these files.
    fn new(files: &[(&str, &str)]) -> Ground {
        let ground = Ground { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(ground.repo()).unwrap();
        ground.git(&["init", "-q", "-b", "main"]);
        ground.write(files);
        ground.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        ground
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    fn git(&self, args: &[&str]) -> String {
        git::git(&self.repo(), args)
    }

    /// Writes and stages files; one without text is removed.
    fn write(&self, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = self.repo().join(name);
            match text.is_empty() {
                true => fs::remove_file(path).unwrap(),
                false => git::write(path, text),
            }
        }
        self.git(&["add", "-A"]);
    }

    /// Commits files on a branch, which begins at main if it is new.
    fn on(&self, branch: &str, files: &[(&str, &str)]) {
        let is_new = self.git(&["branch", "--list", branch]).is_empty();
        self.git(&if is_new {
            vec!["checkout", "-q", "-b", branch, "main"]
        } else {
            vec!["checkout", "-q", branch]
        });
        self.write(files);
        self.git(&["commit", "-q", "--allow-empty", "-m", branch]);
        self.git(&["checkout", "-q", "main"]);
    }

    fn forecast(&self) -> Forecast {
        Forecast::of(&discover(&self.repo()).unwrap()).unwrap().unwrap()
    }

    fn outlook(&self, branches: &[&str], shared: &[&str]) -> Forecasted {
        let asked: Vec<Asked> = branches
            .iter()
            .map(|branch| Asked { branch: (*branch).to_owned(), target: "main".to_owned() })
            .collect();
        let shared: Scope =
            shared.iter().map(|glob| glob.parse::<onus_core::scope::Glob>().unwrap()).collect();
        self.forecast().look(&asked, &shared, None, LONG).unwrap()
    }

    /// `a+b: file file` for each conflict, in the order of the branches; all of it, or the test fails.
    fn seen(&self, branches: &[&str]) -> Vec<String> {
        self.seen_but(branches, &[])
    }

    fn seen_but(&self, branches: &[&str], shared: &[&str]) -> Vec<String> {
        let outlook = self.outlook(branches, shared);
        assert_eq!(outlook.incomplete, None);
        let name = |with: With| match with {
            With::Target => "main",
            With::Branch(at) => branches[at],
        };
        let conflicts = outlook.conflicts.iter();
        conflicts
            .map(|it| format!("{}+{}: {}", branches[it.branch], name(it.with), it.files.join(" ")))
            .collect()
    }

    /// Everything in the repository, byte for byte, but our own file and what git checks out.
    fn bytes(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let files = git::below(&self.repo(), |_| true).into_iter();
        let files = files.filter(|path| !path.is_dir() && !path.ends_with("onus-forecast"));
        files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }
}

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

fn line(at: &str, with: &str) -> String {
    LINES.replace(&format!("{at}\n"), &format!("{with}\n"))
}

#[test]
fn what_git_cannot_merge_is_foreseen_and_what_it_can_is_not() {
    type Files<'a> = &'a [(&'a str, &'a str)];
    let (one, other, far) = (line("5", "one"), line("5", "other"), line("9", "far"));
    let cases: [(&str, Files<'_>, Files<'_>, &str); 11] = [
        ("one line", &[("f", &one)], &[("f", &other)], "a+b: f"),
        ("lines apart", &[("f", &one)], &[("f", &far)], ""),
        ("the same change", &[("f", &one)], &[("f", &one)], ""),
        ("other files", &[("f", &one)], &[("g", "g\n")], ""),
        ("removed and changed", &[("f", "")], &[("f", &other)], "a+b: f"),
        ("renamed and changed elsewhere", &[("f", ""), ("moved", LINES)], &[("f", &far)], ""),
        ("renamed and changed in one place", &[("f", ""), ("moved", &one)], &[("f", &other)], "a+b: moved"),
        ("renamed twice", &[("f", ""), ("x", LINES)], &[("f", ""), ("y", LINES)], "a+b: f x y"),
        ("both added", &[("n", "one\n")], &[("n", "other\n")], "a+b: n"),
        ("binary", &[("b", "\0one")], &[("b", "\0other")], "a+b: b"),
        ("a folder in a file's place", &[("p", "file\n")], &[("p/q", "below\n")], "a+b: p~"),
    ];
    for (name, a, b, expected) in cases {
        let ground = Ground::new(&[("f", LINES), ("b", "\0x"), ("d/x", "1\n"), ("d/y", "2\n")]);
        ground.on("a", a);
        ground.on("b", b);
        let seen = ground.seen(&["a", "b"]).join(", ");
        match expected.strip_suffix('~') {
            Some(start) => assert!(seen.starts_with(start), "{name}: {seen}"),
            None => assert_eq!(seen, expected, "{name}"),
        }
        // What git itself does agrees.
        ground.git(&["checkout", "-q", "a"]);
        let merged = git::git_in(&ground.repo()).args(["merge", "-q", "--no-edit", "b"]).output().unwrap();
        assert_eq!(merged.status.success(), seen.is_empty(), "{name}");
    }
}

#[test]
fn a_folder_that_was_moved_meets_what_is_added_to_it() {
    let ground = Ground::new(&[("d/x", "1\n"), ("d/y", "2\n")]);
    ground.on("a", &[("d/x", ""), ("d/y", ""), ("e/x", "1\n"), ("e/y", "2\n")]);
    ground.on("b", &[("d/new", "n\n")]);
    assert_eq!(ground.seen(&["a", "b"]), ["a+b: e/new"]);
}

#[test]
fn a_branch_that_its_target_overtook_is_foreseen_and_one_that_landed_is_not() {
    let ground = Ground::new(&[("f", LINES), ("g", LINES)]);
    ground.on("a", &[("f", &line("5", "a"))]);
    ground.on("b", &[("f", &line("5", "b")), ("g", &line("2", "b"))]);
    ground.on("c", &[("h", "new\n")]);
    ground.on("main", &[("g", &line("2", "main")), ("other", "x\n")]);
    let all = ["a", "b", "c"];
    assert_eq!(ground.seen(&all), ["a+b: f", "b+main: g"]);
    // Squashed, it is there by its content: what is left of it is the target's.
    ground.git(&["merge", "-q", "--squash", "a"]);
    ground.git(&["commit", "-q", "-m", "squashed"]);
    assert_eq!(ground.seen(&all), ["b+main: f g"]);
    // One that has what it was overtaken by conflicts no more.
    ground.git(&["checkout", "-q", "b"]);
    ground.git(&["merge", "-q", "-s", "ours", "--no-edit", "main"]);
    ground.git(&["checkout", "-q", "main"]);
    assert_eq!(ground.seen(&all), [""; 0]);
    // The newest of what is known of the target counts.
    ground.on("main", &[("h", "else\n")]);
    assert_eq!(ground.seen(&all), ["c+main: h"]);
    ground.git(&["update-ref", "refs/remotes/origin/main", "main"]);
    ground.git(&["update-ref", "refs/heads/main", "main^"]);
    ground.git(&["reset", "-q", "--hard"]);
    assert_eq!(ground.seen(&all), ["c+main: h"], "origin is ahead");
    ground.git(&["update-ref", "-d", "refs/remotes/origin/main"]);
    assert_eq!(ground.seen(&all), [""; 0]);
}

#[test]
fn a_conflict_with_the_target_is_not_told_of_two_branches_again() {
    let ground = Ground::new(&[("f", LINES), ("g", LINES)]);
    ground.on("old", &[("f", &line("5", "old")), ("g", &line("5", "old"))]);
    ground.on("main", &[("f", &line("5", "main"))]);
    // It begins at the newer target, and changes something of its own.
    ground.on("new", &[("g", &line("5", "new"))]);
    assert_eq!(ground.seen(&["old", "new"]), ["old+main: f", "old+new: g"]);
}

#[test]
fn what_all_share_and_what_is_merged_by_union_or_a_driver_does_not_count() {
    let files = [
        ("a.lock", LINES),
        ("log", LINES),
        ("own", LINES),
        ("f", LINES),
        (".gitattributes", "*.bin -text\n"),
    ];
    let ground = Ground::new(&files);
    let ran = ground.folder.path().join("ran");
    ground.git(&["config", "merge.mine.driver", &format!("touch {}; exit 1", ran.display())]);
    ground.git(&["config", "merge.default", "mine"]);
    ground.on("main", &[(".gitattributes", "log merge=union\nown merge=mine\n")]);
    for branch in ["a", "b"] {
        let text = line("5", branch);
        ground.on(branch, &[("a.lock", &text), ("log", &text), ("own", &text), ("f", &text)]);
    }
    assert_eq!(ground.seen_but(&["a", "b"], &["*.lock"]), ["a+b: f"]);
    assert_eq!(ground.seen(&["a", "b"]), ["a+b: a.lock f"]);
    // Nothing that the repository configures is run.
    let info = ground.repo().join(".git/info");
    fs::create_dir_all(&info).unwrap();
    fs::write(info.join("attributes"), "f merge=mine\n").unwrap();
    ground.on("c", &[("f", &line("5", "c"))]);
    assert_eq!(ground.seen(&["a", "c"]), [""; 0]);
    assert!(!ran.exists());
}

#[test]
fn hostile_names_are_foreseen() {
    let names: [&[u8]; 5] =
        [b"not-utf8-\xff\xfe", b"new\nline", b"\x01like a header", b"with space \"and\" 'quotes'", b"-rf"];
    for name in names {
        let ground = Ground::new(&[("f", "x\n")]);
        for branch in ["a", "b"] {
            ground.git(&["checkout", "-q", "-b", branch, "main"]);
            fs::write(ground.repo().join(OsStr::from_bytes(name)), branch).unwrap();
            ground.git(&["add", "-A"]);
            ground.git(&["commit", "-q", "-m", branch]);
        }
        ground.git(&["checkout", "-q", "main"]);
        assert_eq!(ground.seen(&["a", "b"]), [format!("a+b: {}", String::from_utf8_lossy(name))]);
    }
}

#[test]
fn foreseeing_touches_nothing() {
    // A colon would end the path in a list of them.
    let mut ground = Ground::new(&[("f", LINES)]);
    let moved = tempfile::Builder::new().prefix("a:b \"c\\").tempdir().unwrap();
    fs::rename(ground.repo(), moved.path().join("repo")).unwrap();
    ground.folder = moved;
    ground.on("a", &[("f", &line("5", "a"))]);
    ground.on("b", &[("f", &line("5", "b"))]);
    let before = ground.bytes();
    assert_eq!(ground.seen(&["a", "b"]), ["a+b: f"]);
    assert!(before == ground.bytes(), "something was written");
    // Where nothing can be remembered, it is found out again.
    let dot_git = ground.repo().join(".git");
    fs::remove_file(dot_git.join("onus-forecast")).unwrap();
    fs::create_dir(dot_git.join("onus-forecast")).unwrap();
    assert_eq!(ground.seen(&["a", "b"]), ["a+b: f"]);
    fs::remove_dir(dot_git.join("onus-forecast")).unwrap();
    fs::set_permissions(&dot_git, fs::Permissions::from_mode(0o500)).unwrap();
    assert_eq!(ground.seen(&["a", "b"]), ["a+b: f"]);
    fs::set_permissions(&dot_git, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_broken_memory_is_no_memory() {
    let ground = Ground::new(&[("f", LINES)]);
    ground.on("a", &[("f", &line("5", "a"))]);
    ground.on("b", &[("f", &line("5", "b"))]);
    let file = ground.repo().join(".git/onus-forecast");
    assert_eq!(ground.seen(&["a", "b"]), ["a+b: f"]);
    let whole = fs::read(&file).unwrap();
    // A kill leaves the beginning of it, whatever its length.
    for end in (0..whole.len()).step_by(whole.len() / 40 + 1) {
        fs::write(&file, &whole[..end]).unwrap();
        assert_eq!(ground.seen(&["a", "b"]), ["a+b: f"], "{end} of {} bytes", whole.len());
    }
    for broken in [&b"\xff\xfe\0"[..], b"{}\n{}", b"[]\n[1]", b"\n\n\n"] {
        fs::write(&file, broken).unwrap();
        assert_eq!(ground.seen(&["a", "b"]), ["a+b: f"]);
    }
    fs::remove_file(&file).unwrap();
    let elsewhere = ground.folder.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    assert_eq!(ground.seen(&["a", "b"]), ["a+b: f"]);
    assert!(!elsewhere.exists(), "a link was followed");
}

#[test]
fn many_at_once_agree_and_leave_a_whole_memory() {
    let ground = Ground::new(&[("f", LINES)]);
    let branches: Vec<String> = (0..6).map(|n| format!("b{n}")).collect();
    for branch in &branches {
        ground.on(branch, &[("f", &line("5", branch))]);
    }
    let named: Vec<&str> = branches.iter().map(String::as_str).collect();
    let seen: Vec<Vec<String>> = std::thread::scope(|scope| {
        let looks: Vec<_> = (0..8).map(|_| scope.spawn(|| ground.seen(&named))).collect();
        looks.into_iter().map(|look| look.join().unwrap()).collect()
    });
    assert_eq!(seen[0].len(), 15);
    assert!(seen.iter().all(|each| *each == seen[0]));
    let memory = fs::read_to_string(ground.repo().join(".git/onus-forecast")).unwrap();
    let known: serde_json::Value = serde_json::from_str(memory.split_once('\n').unwrap().1).unwrap();
    assert_eq!(known["merges"].as_object().unwrap().len(), 15);
    // It keeps what concerns the branches as they are, and nothing else.
    ground.on("b0", &[("f", &line("5", "moved"))]);
    ground.seen(&named[..2]);
    let memory = fs::read_to_string(ground.repo().join(".git/onus-forecast")).unwrap();
    let known: serde_json::Value = serde_json::from_str(memory.split_once('\n').unwrap().1).unwrap();
    assert_eq!(known["merges"].as_object().unwrap().len(), 1);
    assert_eq!(known["histories"].as_object().unwrap().len(), 2);
}

#[test]
fn what_there_is_no_time_for_is_said_and_done_the_next_time() {
    let ground = Ground::new(&[("f", LINES)]);
    let branches: Vec<String> = (0..70).map(|n| format!("b{n}")).collect();
    ground.on("b0", &[("f", &line("5", "b0"))]);
    for branch in &branches[1..] {
        // All of them change one file, one after another: the last would be compared with 69.
        ground.git(&["branch", branch, "main"]);
    }
    for branch in &branches[1..12] {
        ground.on(branch, &[("f", &line("5", branch))]);
    }
    let named: Vec<&str> = branches.iter().map(String::as_str).collect();
    let outlook = ground.outlook(&named[..12], &[]);
    // 66 pairs, of which one look computes 64.
    assert_eq!(outlook.conflicts.len(), 64);
    assert_eq!(outlook.incomplete.as_deref(), Some("2 pairs of branches are still to be looked at"));
    let outlook = ground.outlook(&named[..12], &[]);
    assert_eq!((outlook.conflicts.len(), outlook.incomplete), (66, None));
    let outlook = ground.outlook(&named, &[]);
    assert_eq!(outlook.incomplete.as_deref(), Some("6 more branches were not looked at"));
    assert_eq!((outlook.conflicts.len(), outlook.seen.len()), (66, 64));
}

#[test]
fn unrelated_and_missing_branches_hold_nothing_up() {
    let ground = Ground::new(&[("f", LINES)]);
    ground.on("a", &[("f", &line("5", "a"))]);
    ground.git(&["checkout", "-q", "--orphan", "alien"]);
    ground.write(&[("f", "alien\n")]);
    ground.git(&["commit", "-q", "-m", "alien"]);
    ground.git(&["checkout", "-q", "main"]);
    let outlook = ground.outlook(&["a", "gone", "alien"], &[]);
    assert_eq!((outlook.seen, outlook.incomplete), (vec![0, 2], None));
    // It conflicts with the target, and with the other in what that changes.
    assert_eq!(ground.seen(&["a", "gone", "alien"]), ["a+alien: f", "alien+main: f"]);
}

#[test]
fn each_is_told_once_for_as_long_as_it_lasts() {
    let ground = Ground::new(&[]);
    let forecast = ground.forecast();
    let of = |about: &str, files: &[&str]| ConflictNews {
        about: about.to_owned(),
        files: files.iter().map(|file| (*file).to_owned()).collect(),
    };
    let told = |now: &[ConflictNews], is_all: bool| {
        let mut heard = Vec::new();
        forecast
            .tell(now, is_all, |news| {
                heard = news.iter().map(|tidings| tidings.about.clone()).collect();
                Ok::<(), ()>(())
            })
            .unwrap();
        heard
    };
    assert_eq!(told(&[of("a", &["f"]), of("b", &["f"])], true), ["a", "b"]);
    assert_eq!(told(&[of("a", &["f"]), of("b", &["f"])], true), [""; 0]);
    assert_eq!(told(&[of("a", &["f", "g"]), of("b", &["f"])], true), ["a"]);
    assert_eq!(told(&[of("a", &["g"])], false), [""; 0], "less is no news");
    assert_eq!(
        told(&[of("a", &["g"]), of("b", &["f"])], true),
        [""; 0],
        "what was not looked at is not over"
    );
    assert_eq!(told(&[of("a", &["g"])], true), [""; 0]);
    assert_eq!(told(&[of("a", &["g"]), of("b", &["f"])], true), ["b"], "it was over");
    // What could not be passed on is told again.
    assert_eq!(forecast.tell(&[of("c", &["f"])], true, |_| Err(())), Err(()));
    assert_eq!(told(&[of("c", &["f"])], true), ["c"]);
}
