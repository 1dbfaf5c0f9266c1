//! Which file system a path is on, and whether SQLite's WAL is safe there.
//!
//! WAL needs memory that all its users share coherently. Network and host-shared file systems do not provide
//! that: two machines, or a guest and its host, damage the database within a minute. So onus checks before it
//! writes a byte.

use std::path::Path;

/// Super-block magics of file systems that are not local to one kernel.
const SHARED_MAGICS: &[(u64, &str)] = &[
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x00c3_6400, "ceph"),
    (0x7375_7245, "coda"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0x786f_4256, "vboxsf"),
    (0xbacb_acbc, "vmhgfs"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0x2003_0528, "orangefs"),
    (0xaad7_aaea, "panfs"),
    (0x0131_11a8, "ibrix"),
    (0x6163_6673, "acfs"),
    (0xbeef_dead, "snfs"),
    (0x7c7c_6673, "prl_fs"),
];

const FUSE_MAGIC: u64 = 0x6573_5546;

/// File systems with FUSE's magic, by their name in the mount table, that reach another machine or the host.
const SHARED_FUSE: &[&str] = &[
    "virtiofs",
    "fuse.sshfs",
    "fuse.s3fs",
    "fuse.rclone",
    "fuse.glusterfs",
    "fuse.ceph-fuse",
    "fuse.vmhgfs-fuse",
    "fuse.grpcfuse",
    "fuse.osxfs",
    "fuse.prl_fs",
    "fuse.davfs",
    "fuse.curlftpfs",
    "fuse.juicefs",
    "fuse.mergerfs-nfs",
    "fuse.nfs",
    "fuse.smbnetfs",
];

/// The name of the file system at a path, if WAL is not safe on it.
pub fn filesystem_of(path: &Path) -> Option<String> {
    let stat = rustix::fs::statfs(path).ok()?;
    #[cfg(target_os = "linux")]
    {
        let magic = stat.f_type.cast_unsigned() & 0xffff_ffff;
        let kind = (magic == FUSE_MAGIC).then(|| mounted_as(path)).flatten();
        unsafe_kind(magic, kind.as_deref()).map(str::to_owned)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (stat, SHARED_MAGICS, SHARED_FUSE, FUSE_MAGIC);
        None
    }
}

fn unsafe_kind(magic: u64, mounted_as: Option<&str>) -> Option<&'static str> {
    if magic == FUSE_MAGIC {
        let kind = mounted_as?;
        return SHARED_FUSE.iter().copied().find(|shared| *shared == kind);
    }
    SHARED_MAGICS.iter().find(|(shared, _)| *shared == magic).map(|(_, name)| *name)
}

/// The type of the mount that a path is on: the longest mount point above it.
#[cfg(target_os = "linux")]
fn mounted_as(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    kind_in(&table, &path)
}

#[cfg(target_os = "linux")]
fn kind_in(table: &str, path: &Path) -> Option<String> {
    table
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let point = left.split(' ').nth(4)?.replace("\\040", " ");
            let kind = right.split(' ').next()?;
            path.starts_with(&point).then(|| (point.len(), kind.to_owned()))
        })
        // A later mount on the same point hides the earlier one.
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_and_host_shared_file_systems_are_told_from_local_ones() {
        for (magic, kind, expected) in [
            (0x6969, None, Some("nfs")),
            (0xff53_4d42, None, Some("cifs")),
            (0x0102_1997, None, Some("9p")),
            (0x0bd0_0bd0, None, Some("lustre")),
            (0x4750_4653, None, Some("gpfs")),
            (0x1983_0326, None, Some("beegfs")),
            (0x2003_0528, None, Some("orangefs")),
            (FUSE_MAGIC, Some("virtiofs"), Some("virtiofs")),
            (FUSE_MAGIC, Some("fuse.sshfs"), Some("fuse.sshfs")),
            (FUSE_MAGIC, Some("fuse.gocryptfs"), None),
            (0xef53, None, None),
            (0x0102_1994, None, None),
            (0x9123_683e, None, None),
        ] {
            assert_eq!(unsafe_kind(magic, kind), expected, "{magic:x} {kind:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_innermost_mount_counts() {
        let table = "1 0 8:1 / / rw - ext4 /dev/sda rw\n\
                     2 1 0:5 / /home/a\\040b rw shared:1 - virtiofs share rw\n\
                     3 2 0:6 / /home/a\\040b/local rw - xfs /dev/sdb rw\n";
        let kind = |path: &str| kind_in(table, Path::new(path));
        assert_eq!(kind("/home/a b/x").as_deref(), Some("virtiofs"));
        assert_eq!(kind("/home/a b/local/x").as_deref(), Some("xfs"));
        assert_eq!(kind("/home/a").as_deref(), Some("ext4"));
    }

    #[test]
    fn the_temporary_folder_of_this_machine_is_local() {
        assert_eq!(filesystem_of(&std::env::temp_dir()), None);
    }
}
