//! Words that occur nowhere else, and a search for the smallest trace of them in every file of a store.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::support::below;

/// Letters of the words to be erased. None is a hexadecimal digit or a vowel, so that no hash, no number and no word of
/// onus itself has eight of them in a row.
const SECRET: &[u8] = b"ghjklmnpqrstvwxz";
/// Letters of everything else.
const PLAIN: &[u8] = b"aeiou0123456789";

/// How much of a word is a proof. The search index keeps only what a word does not share with its neighbour, and may
/// keep a beginning alone; words are so long that either shows.
const TRACE: usize = 8;
const SHORTEST: usize = 12;
const LONGEST: usize = 20;

/// Numbers that look random and are the same in every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn letters(&mut self, letters: &[u8], n: usize) -> String {
        let mut word = String::with_capacity(n);
        for _ in 0..n {
            let letter = char::from(letters[self.below(letters.len())]);
            word.push(if self.below(4) == 0 { letter.to_ascii_uppercase() } else { letter });
        }
        word
    }

    fn text(&mut self, letters: &[u8], bytes: usize) -> String {
        // Some words of a text begin alike, as words do: then the search index tells them apart by long beginnings.
        let stem = self.letters(letters, TRACE);
        let mut text = String::with_capacity(bytes);
        while text.is_empty() || text.len() + LONGEST < bytes {
            let length = SHORTEST + self.below(LONGEST - SHORTEST);
            let word = match self.below(3) {
                0 => stem.clone() + &self.letters(letters, length - stem.len()),
                _ => self.letters(letters, length),
            };
            text.push_str(&word);
            text.push([' ', ' ', '-', ' '][self.below(4)]);
        }
        text.trim_end_matches([' ', '-']).to_owned()
    }

    /// A text that will have to vanish.
    pub(crate) fn secret(&mut self, bytes: usize) -> String {
        self.text(SECRET, bytes)
    }

    /// A text that stays.
    pub(crate) fn plain(&mut self, bytes: usize) -> String {
        self.text(PLAIN, bytes)
    }
}

pub(crate) fn words(text: &str) -> Vec<&str> {
    text.split([' ', '-']).filter(|word| !word.is_empty()).collect()
}

/// Every file in a folder and below.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    below(folder, |_| true).into_iter().filter(|path| !path.is_dir()).collect()
}

/// Which eight letters of the texts that are gone are found where, in any file below the folder and in either case.
/// What they share with a text that is kept proves nothing.
pub(crate) fn traces<'a>(
    folder: &Path,
    gone: impl IntoIterator<Item = &'a String>,
    kept: impl IntoIterator<Item = &'a String>,
) -> Vec<String> {
    let mut wanted = HashSet::new();
    let mut maybe = vec![false; 1 << 20];
    for text in gone {
        each_trace(text, |trace| {
            wanted.insert(trace.to_vec());
        });
    }
    for text in kept {
        each_trace(text, |trace| {
            wanted.remove(trace);
        });
    }
    for trace in &wanted {
        maybe[slot(trace)] = true;
    }
    let mut found = Vec::new();
    for file in files(folder) {
        let bytes = std::fs::read(&file).unwrap().to_ascii_lowercase();
        for (place, window) in bytes.windows(TRACE).enumerate() {
            if maybe[slot(window)] && wanted.contains(window) {
                let name = file.strip_prefix(folder).unwrap().display();
                found.push(format!("{name} at {place}: {}", String::from_utf8_lossy(window)));
            }
        }
    }
    found
}

fn each_trace(text: &str, mut visit: impl FnMut(&[u8])) {
    for word in words(text) {
        word.to_ascii_lowercase().as_bytes().windows(TRACE).for_each(&mut visit);
    }
}

fn slot(trace: &[u8]) -> usize {
    let number = trace.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) as usize
}

#[test]
fn a_trace_is_found_where_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let secret = Dice::new(1).secret(40);
    std::fs::create_dir(folder.path().join("deep")).unwrap();
    let file = folder.path().join("deep/file");
    std::fs::write(&file, "nothing of it").unwrap();
    assert!(traces(folder.path(), [&secret], []).is_empty());
    let end = words(&secret)[0][1..].to_ascii_lowercase();
    std::fs::write(&file, format!("\0\x01{end}\0")).unwrap();
    assert!(!traces(folder.path(), [&secret], []).is_empty());
    assert!(traces(folder.path(), [&secret], [&secret]).is_empty());
}
