//! Links a release build of `onus` without shared libraries, where that works.
//!
//! `onus` is started for every command, and a fifth of a command was the dynamic linker: finding, mapping and
//! relocating libc, libm (for one logarithm) and libgcc_s. Linked statically it is still a position-independent
//! program with read-only relocations, so the address space stays random. The price: a fix in the system's libc
//! reaches `onus` only when it is rebuilt. `ONUS_LINK=dynamic` keeps the shared libraries, for those who must have them.
//!
//! rustc's own way, `target-feature=+crt-static`, is a flag for a whole build and an error where the archives are
//! missing. So the flags are given to this one program, and only after an empty program was linked with them and ran.
//! rustc then still asks the linker for shared libraries by name; small linker scripts under those names answer
//! with the archives. Debug builds stay dynamic: the tests of the clock load `faketime` into them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ONUS_LINK");
    if wanted()
        && let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from)
        && let Some(flags) = write_scripts(&folder)
        && works(&folder, &flags)
    {
        for flag in flags {
            println!("cargo::rustc-link-arg-bin=onus={flag}");
        }
    }
}

fn wanted() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let has_crt_static = env::var("CARGO_CFG_TARGET_FEATURE")
        .is_ok_and(|features| features.split(',').any(|feature| feature == "crt-static"));
    is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var("HOST").ok() == env::var("TARGET").ok()
        && !has_crt_static
        && !is("ONUS_LINK", "dynamic")
}

/// Writes the linker scripts and returns the flags that make the linker find them; None if an archive is missing.
fn write_scripts(folder: &Path) -> Option<[String; 2]> {
    let folder = folder.join("archives");
    fs::create_dir_all(&folder).ok()?;
    let runtime = format!("GROUP ( {} {} {} )", archive("gcc_eh")?, archive("gcc")?, archive("c")?);
    for name in ["gcc_s", "c"] {
        fs::write(folder.join(format!("lib{name}.so")), &runtime).ok()?;
    }
    for name in ["m", "rt", "pthread", "dl", "util"] {
        fs::write(folder.join(format!("lib{name}.so")), format!("INPUT ( {} )", archive(name)?)).ok()?;
    }
    Some(["-static-pie".to_owned(), format!("-L{}", folder.to_str()?)])
}

/// The path at which the C compiler finds an archive. It names an archive that it cannot find without a folder.
fn archive(name: &str) -> Option<String> {
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let output = Command::new(linker).arg(format!("-print-file-name=lib{name}.a")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (Path::new(&path).is_absolute() && !path.contains(char::is_whitespace)).then_some(path)
}

/// Whether rustc links a program with these flags, and the program runs.
fn works(folder: &Path, flags: &[String]) -> bool {
    let (source, program) = (folder.join("empty.rs"), folder.join("empty"));
    let Some(rustc) = env::var_os("RUSTC") else { return false };
    let mut link = Command::new(rustc);
    link.arg(&source).arg("-o").arg(&program).args(["--crate-name", "empty"]);
    link.args(flags.iter().map(|flag| format!("-Clink-arg={flag}")));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut flag = std::ffi::OsString::from("-Clinker=");
        flag.push(linker);
        link.arg(flag);
    }
    // The flags that the program itself will be built with.
    let given = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    link.args(given.split('\u{1f}').filter(|flag| !flag.is_empty()));
    fs::write(&source, "fn main() {}").is_ok() && succeeds(&mut link) && succeeds(&mut Command::new(&program))
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
