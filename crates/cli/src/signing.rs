//! Signatures of seals by the user's ssh key, made and checked by `ssh-keygen`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use onus_core::refusal::{Code, Refusal};

/// What the signature is for: a signature over something else cannot be passed off as one over a seal.
const NAMESPACE: &str = "onus-seal";

fn run(args: &[&std::ffi::OsStr], input: Option<&Path>) -> Result<String, String> {
    let stdin = match input {
        Some(file) => std::fs::File::open(file).map_err(|error| error.to_string())?.into(),
        None => Stdio::null(),
    };
    let output = Command::new("ssh-keygen")
        .args(args)
        .stdin(stdin)
        .output()
        .map_err(|error| format!("ssh-keygen cannot be run: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{} {}", text(&output.stdout), text(&output.stderr)).trim().to_owned())
    }
}

macro_rules! argv {
    ($($arg:expr),* $(,)?) => { &[$(AsRef::<std::ffi::OsStr>::as_ref($arg)),*] };
}

pub(crate) fn signature_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".sig");
    PathBuf::from(name)
}

/// Signs a file; the signature lies beside it.
pub(crate) fn sign(file: &Path, key: &Path) -> Result<PathBuf, Refusal> {
    run(argv!["-Y", "sign", "-n", NAMESPACE, "-f", key, file], None).map_err(|why| {
        Refusal::usage(format!("the seal could not be signed with {}: {why}", key.display()))
    })?;
    Ok(signature_of(file))
}

/// Who signed a file: a name from the list of allowed signers, or without a list the key alone.
pub(crate) fn signer_of(file: &Path, signature: &Path, allowed: Option<&Path>) -> Result<String, Refusal> {
    let refuse = |why: String| {
        Refusal::new(Code::Tampered, format!("the signature of {} does not hold: {why}", file.display()))
            .next("compare with another copy of the seal and its signature")
    };
    let Some(allowed) = allowed else {
        let told = run(argv!["-Y", "check-novalidate", "-n", NAMESPACE, "-s", signature], Some(file))
            .map_err(refuse)?;
        let key = told.split_whitespace().find(|word| word.starts_with("SHA256:")).unwrap_or("a key");
        return Ok(format!("{key} (not compared with a list of signers)"));
    };
    let found = run(argv!["-Y", "find-principals", "-s", signature, "-f", allowed], None).map_err(refuse)?;
    let who = found.lines().next().unwrap_or_default().to_owned();
    run(argv!["-Y", "verify", "-f", allowed, "-I", &who, "-n", NAMESPACE, "-s", signature], Some(file))
        .map_err(refuse)?;
    Ok(who)
}
