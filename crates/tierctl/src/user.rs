//! The user that a server becomes: root starts `mysqld --user=mysql`, and the tier opens its files as that user.

use std::ffi::{CStr, CString, OsString, c_int};
use std::path::Path;

use crate::failure::Failure;
use crate::options::Options;

/// The most groups that a process can have (NGROUPS_MAX).
const GROUPS_MAX: usize = 65_536;

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

    /// Does something as that user, who has his own groups. This program has one thread.
    pub fn acting<T>(self, work: impl FnOnce() -> T) -> T {
        let own = Self::own();
        if own == self {
            return work();
        }
        let (groups, his) = (groups(), self.groups());
        // SAFETY: the lists are as long as they say. What fails leaves more rights than asked for, and the check says less.
        unsafe {
            libc::setgroups(his.len(), his.as_ptr());
            libc::setegid(self.gid);
            libc::seteuid(self.uid);
            let answer = work();
            libc::seteuid(own.uid);
            libc::setegid(own.gid);
            libc::setgroups(groups.len(), groups.as_ptr());
            answer
        }
    }

    /// The groups that the server has as this user, as mysqld sets them (initgroups).
    fn groups(self) -> Vec<libc::gid_t> {
        let mut groups = vec![self.gid; GROUPS_MAX];
        let mut count = GROUPS_MAX as c_int;
        // SAFETY: the entry stands until the next such call, which getgrouplist is not; there is room for as many as `count`.
        let found = unsafe {
            let user = libc::getpwuid(self.uid).as_ref();
            user.map(|user| {
                let name = CStr::from_ptr(user.pw_name).to_owned();
                let (list, count) = (groups.as_mut_ptr(), &raw mut count);
                libc::getgrouplist(name.as_ptr(), self.gid, list, count)
            })
        };
        let some = found.map_or(1, |found| usize::try_from(found).unwrap_or(GROUPS_MAX));
        groups.truncate(some);
        groups
    }
}

/// The groups that this process has beside its own.
fn groups() -> Vec<libc::gid_t> {
    let mut groups = vec![0; GROUPS_MAX];
    // SAFETY: there is room for as many.
    let found = unsafe { libc::getgroups(GROUPS_MAX as c_int, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(found).unwrap_or(0));
    groups
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
            // SAFETY: the child changes its user and its groups, and ends.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    let roots = [0, 4, 12_345];
                    libc::setgroups(roots.len(), roots.as_ptr());
                    let seen = nobody.acting(|| (User::own(), groups()));
                    let acted = seen.0 == nobody && !seen.1.iter().any(|one| roots.contains(one));
                    let again = User::own() == own && groups() == roots;
                    libc::_exit(i32::from(!(acted && again)));
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
