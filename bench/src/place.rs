//! Where benchmarks run: beside the build, so that a sync is a real one, with a fresh `onus`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

const TMPFS_MAGIC: u64 = 0x0102_1994;

#[derive(Debug)]
pub(crate) struct Place {
    /// Temporary folders, emptied at each start.
    scratch: PathBuf,
    /// What is worth keeping from one run to the next.
    pub(crate) data: PathBuf,
    pub(crate) onus: PathBuf,
    pub(crate) empty: PathBuf,
}

impl Place {
    /// Builds the programs that are started, if any is, and says so if the disk is none.
    pub(crate) fn prepare(starts_programs: bool) -> Result<Place> {
        let bench = std::env::current_exe()?;
        let binaries = bench.parent().ok_or("this program has no folder")?;
        let target = binaries.parent().ok_or("this program is not in a target folder")?;
        let given = std::env::var_os("ONUS_BENCH_PROGRAM").map(PathBuf::from);
        let place = Place {
            scratch: target.join("bench-scratch"),
            data: target.join("bench-data"),
            onus: given.clone().unwrap_or_else(|| binaries.join("onus")),
            empty: binaries.join("empty"),
        };
        if starts_programs {
            // In the profile of this program.
            let profile = binaries.file_name().and_then(|name| name.to_str()).unwrap_or("dist");
            if given.is_none() {
                build(profile, &["-p", "onus"])?;
            }
            build(profile, &["-p", "onus-bench", "--bin", "empty"])?;
            println!("programs: {}; as read from the disk", place.onus.display());
            for program in [&place.onus, &place.empty] {
                as_read_from_disk(program)?;
            }
        }
        match fs::remove_dir_all(&place.scratch) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        fs::create_dir_all(&place.scratch)?;
        fs::create_dir_all(&place.data)?;
        if rustix::fs::statfs(&place.scratch)?.f_type.cast_unsigned() == TMPFS_MAGIC {
            println!("note: the target folder is in memory, a sync costs nothing: the ratios mean little");
        }
        Ok(place)
    }

    /// An empty repository.
    pub(crate) fn repository(&self, name: &str) -> Result<Repository> {
        let root = self.scratch.join(name);
        for folder in ["objects", "refs", "onus"] {
            fs::create_dir_all(root.join(".git").join(folder))?;
        }
        fs::write(root.join(".git").join("HEAD"), "ref: refs/heads/main\n")?;
        Ok(Repository { root })
    }
}

/// Brings a program's file into the state that it has after a boot. As the linker left it, its pages are others: a command that runs from
/// those takes up to a fifth more or less time, and that would be measured.
pub(crate) fn as_read_from_disk(program: &Path) -> Result<()> {
    let mut file = fs::File::open(program)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    std::io::copy(&mut file, &mut std::io::sink())?;
    Ok(())
}

/// How many files the repositories have in which git itself is measured.
const FILES: usize = 50_000;

/// Writes that many files in 500 folders. Returns how many there are: a machine that is busy may be asked for less, by `ONUS_BENCH_FILES`; the
/// ratio is then no proof.
pub(crate) fn many_files(root: &Path) -> Result<usize> {
    let files = std::env::var("ONUS_BENCH_FILES").ok().and_then(|text| text.parse().ok()).unwrap_or(FILES);
    for n in 0..files {
        let folder = root.join(format!("src/{}", n % 500));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("f{n}.rs")), format!("// {n}\n"))?;
    }
    Ok(files)
}

/// A repository as far as `onus` looks at one.
#[derive(Debug)]
pub(crate) struct Repository {
    pub(crate) root: PathBuf,
}

impl Repository {
    pub(crate) fn store(&self) -> PathBuf {
        self.root.join(".git").join("onus").join("onus.db")
    }

    /// Puts a copy of a store here, and waits until it is on the disk.
    pub(crate) fn fill(&self, from: &Path) -> Result<()> {
        let store = self.store();
        for side in ["-wal", "-shm"] {
            let mut name = store.clone().into_os_string();
            name.push(side);
            match fs::remove_file(name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        fs::copy(from, &store)?;
        fs::File::open(&store)?.sync_all()?;
        Ok(())
    }

    /// A program to be started here, with nothing of the caller's surroundings that would change what it does.
    pub(crate) fn command(&self, program: &Path, instance: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            // Which git there is, is the machine's to say.
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", &self.root)
            .env("ONUS_ACTOR", "agent:bench")
            .env("ONUS_INSTANCE", instance)
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Starts it and waits for its end.
    pub(crate) fn run(&self, program: &Path, instance: &str, args: &[&str]) -> Result<()> {
        let status = self.command(program, instance).args(args).status()?;
        if !status.success() {
            return Err(format!("{} {}: {status}", program.display(), args.join(" ")).into());
        }
        Ok(())
    }
}

fn build(profile: &str, what: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--profile", profile])
        .args(what)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()?;
    if !status.success() {
        return Err(format!("cargo build {}: {status}", what.join(" ")).into());
    }
    Ok(())
}
