//! Finds the files that a shell command names literally: those of patches in it, and those that a few plain commands write.
//!
//! **Nothing is guessed.** A shell's language is too large to be interpreted from outside. Only literal names count: the target of
//! a redirection, or the argument of one of a closed list of programs, which no expansion can change. Variables, globs, substitutions
//! and the programs that a program starts are ignored; what they write is noticed afterwards. From the first construct that is
//! not understood (a substitution, a subshell, a function), the rest of the command is not read.
//!
//! **Quoted text is not a command.** Quoted text is only a part of its word: no text that a command prints,
//! searches for or writes names a file.

mod tokens;

use std::path::{Path, PathBuf};

use super::patch;
use tokens::{Pipeline, Script, Simple, Word};

/// More than anybody types; a longer command is not read, and its changes are noticed afterwards.
const MAX_COMMAND: usize = 256 << 10;
/// The most files that are returned.
const MAX_FILES: usize = 500;

/// The files that a command names, relative to the folder that it is run in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Files of patches, which are edits.
    pub patched: Vec<PathBuf>,
    /// Files that plain commands write.
    pub written: Vec<PathBuf>,
}

/// Reads a command.
pub fn named(command: &str) -> Named {
    if command.len() > MAX_COMMAND {
        return Named::default();
    }
    named_in(&Script::read(command))
}

/// Reads the argv of a program that is run without a shell.
pub fn named_by_argv(argv: &[String]) -> Named {
    named_in(&Script::of_argv(argv))
}

fn named_in(script: &Script) -> Named {
    let mut reader = Reader { found: Named::default(), base: Some(PathBuf::new()) };
    for Pipeline { commands, is_followed } in &script.pipelines {
        reader.pipeline(&script.commands[commands.clone()], *is_followed);
    }
    let mut found = reader.found;
    for files in [&mut found.patched, &mut found.written] {
        files.sort();
        files.dedup();
        files.truncate(MAX_FILES);
    }
    found
}

struct Reader {
    found: Named,
    /// The current folder of the command; None if it is unknown.
    base: Option<PathBuf>,
}

impl Reader {
    fn pipeline(&mut self, commands: &[Simple], is_followed: bool) {
        let is_patch = |simple: &Simple| {
            let program = program(&simple.words).first();
            program.is_some_and(|word| matches!(word.text.as_str(), "apply_patch" | "applypatch"))
        };
        if commands.iter().any(is_patch) {
            for simple in commands {
                self.patch(simple, is_patch(simple));
            }
        }
        for simple in commands {
            for target in &simple.targets {
                self.written(target);
            }
            self.program(program(&simple.words));
        }
        if let [only] = commands {
            self.follow(program(&only.words), is_followed);
        }
    }

    fn patch(&mut self, simple: &Simple, is_program: bool) {
        let arguments = simple.words.iter().filter(|word| is_program && word.is_literal);
        let texts = simple.texts.iter().map(|(text, is_plain)| (text.as_str(), *is_plain));
        for (text, is_plain) in texts.chain(arguments.map(|word| (word.text.as_str(), true))) {
            for file in patch::files_of(text) {
                let is_expanded = !is_plain && file.to_string_lossy().contains(['$', '`', '\\']);
                if let Some(file) = self.seen(&file).filter(|_| !is_expanded) {
                    self.found.patched.push(file);
                }
            }
        }
    }

    /// A path relative to the folder that the command began in.
    fn seen(&self, path: &Path) -> Option<PathBuf> {
        match &self.base {
            Some(base) => Some(base.join(path)),
            None => path.is_absolute().then(|| path.to_owned()),
        }
    }

    fn written(&mut self, word: &Word) {
        if word.is_literal && !word.text.is_empty() {
            self.found.written.extend(self.seen(Path::new(&word.text)));
        }
    }

    /// Reads one of the known programs.
    fn program(&mut self, words: &[Word]) {
        let Some((name, arguments)) = words.split_first() else { return };
        if !name.is_literal {
            return;
        }
        match name.text.as_str() {
            "tee" | "rm" => operands(arguments, "").files.into_iter().for_each(|word| self.written(word)),
            "sed" => self.sed(arguments),
            "mv" | "cp" => self.moved(arguments, name.text == "mv"),
            "git" => self.git(arguments),
            _ => {}
        }
    }

    /// `sed -i` writes all operands but its script.
    fn sed(&mut self, arguments: &[Word]) {
        let is_in_place = |word: &Word| {
            let short = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            // Flags without an argument may precede it in one word.
            let flags = short.map(|flags| flags.trim_start_matches(['n', 'r', 'E', 's', 'u', 'z']));
            flags.is_some_and(|flags| flags.starts_with('i')) || word.text.starts_with("--in-place")
        };
        let options = operands(arguments, "efl");
        if !options.flags.iter().any(|word| is_in_place(word)) {
            return;
        }
        let has_script = options.flags.iter().any(|word| {
            word.text.starts_with("-e")
                || word.text.starts_with("-f")
                || word.text.starts_with("--expression")
                || word.text.starts_with("--file")
        });
        // Some versions take a suffix as a separate word after `-i`, often an empty one.
        let files = options.files.into_iter().filter(|word| !word.text.is_empty());
        files.skip(usize::from(!has_script)).for_each(|word| self.written(word));
    }

    /// `mv` and `cp` write the target, which may be a file or a folder; `mv` also removes its sources.
    fn moved(&mut self, arguments: &[Word], is_gone: bool) {
        let Operands { flags, mut files, values } = operands(arguments, "tS");
        let into = flags.iter().find_map(|word| {
            word.text.strip_prefix("--target-directory=").map(|folder| Word::part(folder, word))
        });
        let is_into = |flag: &str| flag == "t" || flag == "target-directory";
        let named = values.iter().find(|(flag, _)| is_into(flag)).map(|(_, word)| (*word).clone());
        let target = match into.or(named) {
            Some(target) => target,
            None => match files.pop() {
                Some(target) if !files.is_empty() => target.clone(),
                _ => return,
            },
        };
        self.written(&target);
        for word in files {
            let name = Path::new(&word.text).file_name().filter(|_| word.is_literal && target.is_literal);
            if let Some(name) = name {
                self.found.written.extend(self.seen(&Path::new(&target.text).join(name)));
            }
            if is_gone {
                self.written(word);
            }
        }
    }

    /// `git checkout -- PATH`, `git restore PATH`.
    fn git(&mut self, arguments: &[Word]) {
        let (mut rest, mut inner) = (arguments, self.base.clone());
        while let Some((word, others)) = rest.split_first() {
            match word.text.as_str() {
                "-C" => {
                    let Some((folder, others)) = others.split_first() else { return };
                    inner = inner.filter(|_| folder.is_literal).map(|base| base.join(&folder.text));
                    rest = others;
                }
                "-c" => rest = others.get(1..).unwrap_or_default(),
                "--no-pager" => rest = others,
                _ => break,
            }
        }
        let Some((verb, rest)) = rest.split_first() else { return };
        let behind = rest.iter().position(|word| word.text == "--").map(|at| &rest[at + 1..]);
        let is_flag = |short: &str, long: &str| {
            let flags = &rest[..rest.len() - behind.map_or(0, <[Word]>::len)];
            flags.iter().any(|word| word.text == short || word.text == long)
        };
        let files: Vec<&Word> = match (verb.text.as_str(), behind) {
            ("checkout", Some(paths)) => paths.iter().collect(),
            // Without --worktree, --staged changes only the index.
            ("restore", _) if is_flag("-S", "--staged") && !is_flag("-W", "--worktree") => return,
            ("restore", Some(paths)) => paths.iter().collect(),
            ("restore", None) => operands(rest, "s").files,
            _ => return,
        };
        let outer = std::mem::replace(&mut self.base, inner);
        files.into_iter().for_each(|word| self.written(word));
        self.base = outer;
    }

    /// Follows a change of folder for the commands after it.
    fn follow(&mut self, words: &[Word], is_followed: bool) {
        let moves = |word: &&Word| matches!(word.text.as_str(), "cd" | "pushd" | "popd");
        let Some(word) = words.first().filter(moves) else { return };
        self.base = match words {
            [_, folder] if word.text == "cd" && is_followed && is_folder(folder) => {
                self.seen(Path::new(&folder.text))
            }
            _ => None,
        };
    }
}

fn is_folder(word: &Word) -> bool {
    word.is_literal && !word.text.is_empty() && word.text != "-"
}

/// The words from the program's name on, without assignments and keywords before it.
fn program(words: &[Word]) -> &[Word] {
    let is_before = |word: &Word| {
        let name = word.text.split('=').next().unwrap_or_default();
        let is_name = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_joint = matches!(
            word.text.as_str(),
            "if" | "then" | "else" | "elif" | "do" | "while" | "until" | "!" | "{"
        );
        is_joint && word.is_literal || is_name && word.text.contains('=')
    };
    let before = words.iter().take_while(|word| is_before(word)).count();
    &words[before..]
}

/// The arguments of a program, by kind.
struct Operands<'a> {
    flags: Vec<&'a Word>,
    /// Arguments of flags, by the flag's name.
    values: Vec<(String, &'a Word)>,
    files: Vec<&'a Word>,
}

/// Splits arguments by kind. `with_value`: the short flags whose argument is the next word, if it is not in the same one.
fn operands<'a>(arguments: &'a [Word], with_value: &str) -> Operands<'a> {
    const LONG: [&str; 6] = ["expression", "file", "line-length", "target-directory", "suffix", "source"];
    let mut found = Operands { flags: Vec::new(), values: Vec::new(), files: Vec::new() };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if text == "--" {
            found.files.extend(words);
            break;
        }
        if !text.starts_with('-') || text == "-" {
            found.files.push(word);
            continue;
        }
        found.flags.push(word);
        let name = match text.strip_prefix("--") {
            Some(long) => Some(long.to_owned()).filter(|long| LONG.contains(&long.as_str())),
            // Of several flags in one word, the last takes the argument.
            None => text.chars().last().filter(|flag| with_value.contains(*flag)).map(String::from),
        };
        if let Some(name) = name {
            found.values.extend(words.next().map(|word| (name, word)));
        }
    }
    found
}

#[cfg(test)]
mod tests;
