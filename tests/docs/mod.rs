//! The documents, executed: what README and guide show is what the program prints.
//!
//! `ONUS_UPDATE=1 cargo test -p onus --test cli docs::` writes what was printed into the documents. Look at the
//! difference before you commit it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod architecture;
mod bugs;
mod console;
mod examples;
mod files;
mod links;
mod mask;
mod reference;

use std::path::PathBuf;

/// The root of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join("..").canonicalize().unwrap()
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    console::check(&root().join("README.md"));
}

#[test]
fn the_guide_shows_what_the_program_prints() {
    console::check(&root().join("docs").join("guide.md"));
}

#[test]
fn links_between_documents_lead_somewhere() {
    links::check(&root());
}
