//! The server's executable: found, and refused when the tier cannot be under it.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The executable, searched as a shell would.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let direct = Path::new(name);
    let found = if direct.components().count() > 1 {
        Some(direct.to_path_buf())
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path);
        folders
            .map(|folder| folder.join(name))
            .find(|each| is_executable(each))
    };
    found.filter(|path| is_executable(path)).ok_or_else(|| {
        Failure::usage(
            format!("there is no server {}", name.to_string_lossy()),
            "name its executable after --, for example -- /usr/sbin/mysqld --defaults-file=my.cnf",
        )
    })
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Refuses executables into which the dynamic loader preloads nothing.
pub fn refuse_what_cannot_be_covered(program: &Path) -> Result<(), Failure> {
    let shown = program.display();
    let head = std::fs::read(program).map_err(|error| {
        Failure::failed(
            format!("{shown} cannot be read: {error}"),
            "name a server that this user may read",
        )
    })?;
    if head.starts_with(b"#!") {
        return Err(Failure::usage(
            format!("{shown} is a script"),
            "name the server's own executable",
        ));
    }
    if !is_dynamic(&head) {
        return Err(Failure::usage(
            format!(
                "{shown} is not a dynamically linked executable: the loader preloads nothing into it"
            ),
            "use a server that is dynamically linked with the C library",
        ));
    }
    let mode = program
        .metadata()
        .map(|about| about.permissions().mode())
        .unwrap_or(0);
    if mode & 0o6000 != 0 || has_file_capabilities(program) {
        return Err(Failure::usage(
            format!(
                "{shown} is setuid or has file capabilities: the loader ignores LD_PRELOAD for it"
            ),
            "remove them (chmod u-s,g-s; setcap -r), and grant ambient capabilities instead (systemd: AmbientCapabilities=)",
        ));
    }
    Ok(())
}

/// Whether a 64-bit little-endian ELF file names an interpreter (PT_INTERP = 3; program header table at 0x20, sizes at 0x36).
fn is_dynamic(file: &[u8]) -> bool {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let mut value = [0u8; 8];
        value[..bytes].copy_from_slice(file.get(at..at + bytes)?);
        usize::try_from(u64::from_le_bytes(value)).ok()
    };
    let interpreter = || {
        let (table, size, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
        (0..count).find(|each| number(table + each * size, 4) == Some(3))
    };
    file.starts_with(b"\x7fELF\x02\x01") && interpreter().is_some()
}

fn has_file_capabilities(program: &Path) -> bool {
    let Ok(path) = CString::new(program.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: both strings end in NUL; a size of 0 asks only for the attribute's length.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        )
    };
    length > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_machine_can_be_covered_and_a_static_or_foreign_one_cannot() {
        let own = find(OsStr::new("sh")).expect("sh is on PATH");
        assert!(refuse_what_cannot_be_covered(&own).is_ok());
        assert!(!is_dynamic(b"\x7fELF\x02\x01"));
        assert!(!is_dynamic(b"MZ"));
    }

    #[test]
    fn a_server_that_is_not_there_is_a_usage_error() {
        assert_eq!(
            find(OsStr::new("/no/such/mysqld")).unwrap_err().exit_code,
            2
        );
    }

    #[test]
    fn a_setuid_server_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server");
        std::fs::copy("/bin/sh", &path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let refused = refuse_what_cannot_be_covered(&path);
        assert!(refused.unwrap_err().message.contains("setuid"));
    }
}
