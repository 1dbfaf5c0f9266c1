//! What onus reads, fed with what nobody meant to write.
//!
//! A [`targets`] function takes bytes and panics if a promise about them is broken: nothing panics, what is read is read the
//! same again, and answers agree with a simpler way to find them. [`run`] mutates a small committed corpus; it is
//! deterministic, needs no nightly compiler and runs in every test. `fuzz/cargo-fuzz` has the same targets for libFuzzer.

mod steps;
pub mod targets;
pub mod texts;

pub use steps::steps;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use onus_sim::dice::Dice;

/// The most bytes that an input grows to.
const MAX_BYTES: usize = 4_096;

/// A committed corpus.
pub fn corpus(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

/// How many inputs a target gets. More by `FUZZ_EXECS=1000000`.
pub fn execs(default: u64) -> u64 {
    std::env::var("FUZZ_EXECS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs a target over a corpus and `execs` mutations of it. The seed and the bytes of what fails are in the panic.
///
/// # Panics
///
/// If the corpus is missing, or the target fails.
#[allow(clippy::panic, reason = "a target that fails fails the test that runs it")]
pub fn run(corpus: &Path, execs: u64, target: impl Fn(&[u8])) {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    let mut files: Vec<_> =
        std::fs::read_dir(corpus).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    seeds.extend(files.iter().filter_map(|file| std::fs::read(file).ok()));
    assert!(!seeds.is_empty(), "no corpus in {}", corpus.display());
    let mut dice = Dice::new(1);
    for exec in 0..execs {
        let input = match seeds.get(usize::try_from(exec).unwrap_or(usize::MAX)) {
            Some(seed) => seed.clone(),
            None => mutated(&mut dice, &seeds),
        };
        if std::panic::catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
            panic!("input {exec} fails: b\"{}\"", input.escape_ascii());
        }
    }
}

/// Bytes that parsers care about.
const TOKENS: [&[u8]; 32] = [
    b"\0",
    b"\n",
    b"/",
    b"..",
    b"**",
    b"*",
    b"{",
    b"}",
    b",",
    b"[",
    b"]",
    b"!",
    b"\\",
    b":",
    b"-",
    b"0",
    b"9999999999999999999",
    b"\"",
    b"'",
    b"=",
    b"\xff",
    "\u{202e}".as_bytes(),
    "é".as_bytes(),
    "𝟙".as_bytes(),
    "«".as_bytes(),
    "»".as_bytes(),
    b"$(",
    b"`",
    b"; ",
    b"\x1b[",
    b"</",
    b"\x1f",
];

fn mutated(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = dice.pick(seeds).cloned().unwrap_or_default();
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        let to = at + dice.below(bytes.len() - at + 1);
        match dice.below(7) {
            0 => drop(bytes.drain(at..to)),
            1 => {
                let token = TOKENS[dice.below(TOKENS.len())];
                bytes.splice(at..at, token.iter().copied());
            }
            2 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            3 => {
                let part = bytes[at..to].to_vec();
                bytes.splice(to..to, part);
            }
            4 => {
                // The end of another.
                let other = dice.pick(seeds).cloned().unwrap_or_default();
                let from = dice.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            5 if at < bytes.len() => bytes[at] = u8::try_from(dice.below(256)).unwrap_or_default(),
            _ => {
                let token = TOKENS[dice.below(TOKENS.len())];
                bytes.splice(at..to, token.iter().copied());
            }
        }
        bytes.truncate(MAX_BYTES);
    }
    bytes
}
