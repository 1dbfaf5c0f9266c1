//! Signatures of seals by the user's ssh key, made and checked by `ssh-keygen`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use onus_core::refusal::{Code, Refusal, Step};

use crate::temporary::temporary_folder;

/// The purpose of the signature: a signature over something else cannot pass for one over a seal.
const NAMESPACE: &str = "onus-seal";

fn run(args: &[&std::ffi::OsStr], input: Option<&str>) -> Result<String, String> {
    let fail = |error: std::io::Error| format!("cannot run ssh-keygen: {error}");
    let mut child = Command::new("ssh-keygen")
        .args(args)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // If it ends before it has read everything, its own message matters more.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(fail)?;
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

/// Signs a file; the signature goes next to it.
pub(crate) fn sign(file: &Path, key: &Path) -> Result<PathBuf, Refusal> {
    // With `./` in front, so that a name such as `-foo` is not an option.
    let path = Path::new(".").join(file);
    run(argv!["-Y", "sign", "-n", NAMESPACE, "-f", key, &path], None)
        .map_err(|why| Refusal::usage(format!("cannot sign the seal with {}: {why}", key.display())))?;
    Ok(signature_of(file))
}

/// Who signed a text: a name from the list of allowed signers or, without a list, only the key.
pub(crate) fn signer_of(
    name: &str,
    text: &str,
    signature: &Path,
    allowed: Option<&Path>,
) -> Result<String, Refusal> {
    let refuse = |why: String| {
        Refusal::new(Code::Tampered, format!("the signature of {name} is invalid: {why}"))
            .next(Step::plain("compare with another copy of the seal and its signature"))
    };
    let Some(allowed) = allowed else {
        let told = run(argv!["-Y", "check-novalidate", "-n", NAMESPACE, "-s", signature], Some(text))
            .map_err(refuse)?;
        let key = told.split_whitespace().find(|word| word.starts_with("SHA256:")).unwrap_or("a key");
        return Ok(format!("{key} (not compared with a list of signers)"));
    };
    let found = run(argv!["-Y", "find-principals", "-s", signature, "-f", allowed], None).map_err(refuse)?;
    let who = found.lines().next().unwrap_or_default().to_owned();
    run(argv!["-Y", "verify", "-f", allowed, "-I", &who, "-n", NAMESPACE, "-s", signature], Some(text))
        .map_err(refuse)?;
    Ok(who)
}

/// Like [`signer_of`], for a signature that is not in a file: `ssh-keygen` needs one.
pub(crate) fn signer_of_text(
    name: &str,
    text: &str,
    signature: &str,
    allowed: Option<&Path>,
) -> Result<String, Refusal> {
    let unwritable = |error: std::io::Error| {
        Refusal::new(Code::Unavailable, format!("cannot make a temporary file for the signature: {error}"))
    };
    let folder = temporary_folder("sig").map_err(unwritable)?;
    let file = folder.path().join("sig");
    std::fs::write(&file, signature).map_err(unwritable)?;
    signer_of(name, text, &file, allowed)
}
