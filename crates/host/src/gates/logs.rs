//! The logs of gates, kept on the machine where they ran: one numbered file each, readable only by the user. The oldest are deleted
//! when there are too many.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use onus_core::gate::GateKey;
use onus_store::OWN_FOLDER;

/// The most logs that are kept, and their total size. One is a little more than a MiB at most.
const MOST: usize = 200;
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// The folder of a clone's logs.
#[derive(Clone, Debug)]
pub(crate) struct Logs(PathBuf);

impl Logs {
    pub(crate) fn at(folder: PathBuf) -> Logs {
        Logs(folder)
    }

    /// Keeps a log, and returns its name.
    pub(crate) fn keep(&self, gate: &GateKey, bytes: &[u8]) -> io::Result<String> {
        onus_store::make_folder(&self.0, OWN_FOLDER)?;
        let mut number = self.all().last().map_or(0, |(number, _)| *number) + 1;
        loop {
            let name = format!("{number:08}-{gate}.log");
            let mut options = fs::OpenOptions::new();
            match options.write(true).create_new(true).mode(0o600).open(self.0.join(&name)) {
                Ok(mut file) => {
                    file.write_all(bytes)?;
                    self.prune();
                    return Ok(name);
                }
                // Another process was faster, with the same gate.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads a log by its name; None if it is not here, or no longer.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        // Names come from the store, which others write to, too.
        if number_of(name).is_none() || Path::new(name).components().count() != 1 {
            return Ok(None);
        }
        match fs::read(self.0.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All logs by number, newest last.
    fn all(&self) -> Vec<(u64, String)> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut all: Vec<(u64, String)> = names.filter_map(|name| Some((number_of(&name)?, name))).collect();
        all.sort();
        all
    }

    /// Deletes the oldest logs. A failure is ignored: the next call tries again.
    fn prune(&self) {
        let mut bytes = 0;
        for (place, (_, name)) in self.all().iter().rev().enumerate() {
            let path = self.0.join(name);
            bytes += fs::symlink_metadata(&path).map_or(0, |meta| meta.len());
            if place >= MOST || (bytes > MOST_BYTES && place > 0) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn number_of(name: &str) -> Option<u64> {
    let (number, rest) = name.split_once('-')?;
    (rest.ends_with(".log") && number.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn logs_are_private_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::at(folder.path().join("gates"));
        let gate: GateKey = "tests".parse().unwrap();
        let names: Vec<String> =
            (0..MOST + 5).map(|n| logs.keep(&gate, n.to_string().as_bytes()).unwrap()).collect();
        assert_eq!(logs.all().len(), MOST);
        assert_eq!(logs.read(&names[0]).unwrap(), None);
        assert_eq!(logs.read(&names[MOST + 4]).unwrap().unwrap(), (MOST + 4).to_string().as_bytes());
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(logs.0.clone()), 0o700);
        assert_eq!(mode(logs.0.join(&names[MOST])), 0o600);
    }

    #[test]
    fn large_logs_go_sooner_and_the_last_stays() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::at(folder.path().join("gates"));
        let gate: GateKey = "tests".parse().unwrap();
        let large = vec![b'x'; usize::try_from(MOST_BYTES / 2).unwrap()];
        let names: Vec<String> = (0..4).map(|_| logs.keep(&gate, &large).unwrap()).collect();
        assert_eq!(logs.all().into_iter().map(|(_, name)| name).collect::<Vec<_>>(), names[2..]);
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("1-secret.log"), "secret").unwrap();
        let logs = Logs::at(folder.path().join("gates"));
        for name in ["../1-secret.log", "1-../../1-secret.log", "/etc/passwd", "", "secret", "1-x.log"] {
            assert_eq!(logs.read(name).unwrap(), None, "{name}");
        }
    }
}
