//! Opening the files that a tier keeps: only a file that no one else can have prepared is taken.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens the file at `path` for reading and writing, or makes it with mode 0600.
///
/// A file that is there must be a regular file of this user with one name and without rights for others; a symbolic
/// link counts as another's. A block device must not be open to everybody; it may be named by a link (udev makes them).
///
/// # Errors
/// What `open` says, and `PermissionDenied` with the reason for a file that is not this user's alone.
pub fn open(path: &Path) -> io::Result<File> {
    let device = path
        .metadata()
        .is_ok_and(|about| about.file_type().is_block_device());
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    if device {
        // The kernel refuses one that is mounted, swapped to, or part of a volume or RAID.
        options.custom_flags(libc::O_EXCL);
    } else {
        // Without O_NONBLOCK, the open of somebody's pipe would wait.
        options
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    let file = options.open(path).map_err(named)?;
    // SAFETY: geteuid takes no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    let about = file.metadata()?;
    let device = device && about.file_type().is_block_device();
    if device && about.mode() & 0o002 == 0 {
        return Ok(file);
    }
    check(&about, user)?;
    Ok(file)
}

/// Opens a file that `owner` keeps, for reading and writing or, where this user may not write, for reading. Makes nothing.
///
/// Somebody else may have named the path, and to open a device can do something by itself (a watchdog, a tape): so this
/// looks at it before it opens it, and opens what it has looked at.
///
/// # Errors
/// As `open`.
pub fn attach(path: &Path, owner: u32) -> io::Result<(File, bool)> {
    let found = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(path)?;
    check(&found.metadata()?, owner)?;
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let open = |write| {
        OpenOptions::new()
            .read(true)
            .write(write)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
    };
    match open(true) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok((open(false)?, false)),
        other => Ok((other?, true)),
    }
}

fn named(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::ELOOP) {
        return refused("it is a symbolic link");
    }
    error
}

/// Whether the file is a regular one of `owner` with one name and without rights for others; `about` is of the name itself, so
/// that it shows a symbolic link.
///
/// # Errors
/// `PermissionDenied` with the reason why not.
pub fn check(about: &Metadata, owner: u32) -> io::Result<()> {
    if about.is_symlink() {
        return Err(refused("it is a symbolic link"));
    }
    if !about.is_file() {
        return Err(refused("it is not a regular file"));
    }
    if about.uid() != owner {
        return Err(refused("another user owns it"));
    }
    if about.mode() & 0o077 != 0 {
        return Err(refused("others may use it (its mode is not 0600)"));
    }
    if about.nlink() > 1 {
        return Err(refused("it has a second name (a hard link)"));
    }
    Ok(())
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use super::{attach, open};
    use crate::testing::Folder;
    use std::fs::{self, Permissions};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// A lease tells of every open: that of a file which is refused never comes.
    #[test]
    fn what_is_refused_is_not_even_opened() {
        // F_SETSIG of the kernel, which the libc crate has no name for.
        const SET_SIGNAL: libc::c_int = 10;
        let folder = Folder::new();
        let path = folder.path("file");
        let file = open(&path).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("a mode");
        // SAFETY: the calls take numbers; the signal is one that is ignored unless a program asks for it.
        let leased = unsafe {
            libc::fcntl(file.as_raw_fd(), SET_SIGNAL, libc::SIGURG);
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
        };
        assert_eq!(leased, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: geteuid takes no arguments and cannot fail.
        let error = attach(&path, unsafe { libc::geteuid() }).expect_err("refused");
        assert!(error.to_string().contains("0600"), "{error}");
    }

    #[test]
    fn only_a_file_of_this_user_alone_is_taken() {
        let folder = Folder::new();
        let own = folder.path("own");
        drop(open(&own).expect("a new file"));
        let mode = own.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        open(&own).expect("the same again");
        // SAFETY: geteuid takes no arguments and cannot fail.
        let user = unsafe { libc::geteuid() };
        assert!(attach(&own, user).is_ok_and(|(_, writable)| writable));

        let why = |wanted: &str| {
            for error in [open(&own).err(), attach(&own, user).err()] {
                let text = error.expect("refused").to_string();
                assert!(text.contains(wanted), "{text}");
            }
        };
        fs::set_permissions(&own, Permissions::from_mode(0o640)).expect("a mode");
        why("0600");
        fs::set_permissions(&own, Permissions::from_mode(0o600)).expect("a mode");
        fs::hard_link(&own, folder.path("second")).expect("a link");
        why("second name");
        fs::remove_file(folder.path("second")).expect("gone");
        if user == 0 {
            chown(&own, Some(65534), None).expect("another owner");
            why("another user");
        }
        fs::rename(&own, folder.path("target")).expect("a name");
        symlink(folder.path("target"), &own).expect("a link");
        why("symbolic link");
        fs::remove_file(&own).expect("gone");
        fs::create_dir(&own).expect("a folder");
        assert!(open(&own).is_err() && attach(&own, user).is_err());
    }
}
