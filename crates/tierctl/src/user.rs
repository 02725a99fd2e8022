//! The user that a server becomes: root starts `mysqld --user=mysql`, and the tier opens its files as that user.

use std::ffi::{CString, OsString};
use std::path::Path;

use crate::failure::Failure;
use crate::options::Options;

/// A user by number, with its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    gid: u32,
}

impl User {
    /// Who this program acts as.
    pub fn own() -> Self {
        // SAFETY: both calls take no arguments and cannot fail.
        unsafe {
            Self {
                uid: libc::geteuid(),
                gid: libc::getegid(),
            }
        }
    }

    /// Who this server will act as: what its `--user` says when root starts it.
    pub fn of_server(program: &Path, arguments: &[OsString]) -> Result<Self, Failure> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let own = Self::own();
        let is_known = name.starts_with("mysqld") || name.starts_with("mariadbd");
        if own.uid != 0 || !is_known {
            return Ok(own);
        }
        match Options::of(arguments).get("user") {
            None => Ok(own),
            Some(user) => Self::named(user).ok_or_else(|| {
                Failure::usage(
                    format!("the server's --user={user} is not a user of this machine"),
                    "name a user of this machine, or make one with useradd",
                )
            }),
        }
    }

    fn named(name: &str) -> Option<Self> {
        let text = CString::new(name).ok()?;
        // SAFETY: the name ends in NUL; the answer stands until the next such call, in this only thread.
        unsafe {
            let mut found = libc::getpwnam(text.as_ptr());
            if found.is_null() {
                found = libc::getpwuid(name.parse().ok()?);
            }
            found.as_ref().map(|found| Self {
                uid: found.pw_uid,
                gid: found.pw_gid,
            })
        }
    }

    /// Does something as that user. This program has one thread.
    pub fn acting<T>(self, work: impl FnOnce() -> T) -> T {
        let own = Self::own();
        if own == self {
            return work();
        }
        // SAFETY: the calls take numbers only. What fails leaves more rights than asked for, and the check says less.
        unsafe {
            libc::setegid(self.gid);
            libc::seteuid(self.uid);
            let answer = work();
            libc::seteuid(own.uid);
            libc::setegid(own.gid);
            answer
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(program: &str, words: &[&str]) -> Result<User, Failure> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        User::of_server(Path::new(program), &words)
    }

    #[test]
    fn root_starts_a_server_as_the_user_that_it_names() {
        let own = User::own();
        assert_eq!(of("python3", &["--user=nobody"]).expect("no server"), own);
        let nobody = of("/x/mysqld", &["--no-defaults", "--user=nobody"]).expect("a user");
        let by_number = of(
            "mysqld",
            &["--no-defaults", "--user", &nobody.uid.to_string()],
        );
        assert_eq!(by_number.expect("a user"), nobody);
        if own.uid == 0 {
            assert_ne!(nobody.uid, 0);
            // In a process of its own: the user is that of all threads, and other tests run in this one.
            // SAFETY: the child changes its user and ends.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    let acted = nobody.acting(User::own) == nobody && User::own() == own;
                    libc::_exit(i32::from(!acted));
                }
                let mut status = 1;
                libc::waitpid(child, &raw mut status, 0);
                status
            };
            assert_eq!(status, 0);
            assert_eq!(
                of("mysqld", &["--no-defaults", "--user=n.b"])
                    .unwrap_err()
                    .exit_code,
                2
            );
        }
    }
}
