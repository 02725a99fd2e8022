//! Takes the place of a server's socket file and gives it back.
//!
//! The server's socket gets a second name beside it, then ours is renamed over the first: at no moment is there no socket. Giving
//! back is one rename. Clients that are connected notice neither.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use socket2::Socket;

use super::identity::User;
use super::place::{Place, inode as identity, is_alive};
use crate::failure::Failure;
use crate::output::quoted;

/// Behind the name of the server's socket while we have its place.
const ASIDE: &str = ".upshift";
/// Behind the name of ours before it takes the place.
const NEW: &str = ".upshift-new";

/// A place that was taken. Dropped without being given back, its guard gives it back.
pub struct Taken {
    path: PathBuf,
    guard: Child,
}

/// Where the server's socket is while its place is taken.
#[must_use]
pub fn aside(path: &Path) -> PathBuf {
    with_suffix(path, ASIDE)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Whether a socket may be taken, before anything is changed; what a killed capture left behind is repaired first, and the second
/// value says so.
///
/// # Errors
/// A path that is no socket, a socket of somebody else, another capture on it.
pub fn check(path: &Path) -> Result<(Metadata, Option<String>), Failure> {
    let word = repair(path)?;
    let found = fs::symlink_metadata(path).map_err(|error| {
        Failure::failed(
            format!("{}: {error}", path.display()),
            "name the server's socket in --server: mysql://?socket=PATH",
        )
    })?;
    if !found.file_type().is_socket() {
        return Err(Failure::usage(
            format!("{} is not a socket", path.display()),
            "name the server's socket in --server: mysql://?socket=PATH",
        ));
    }
    let own = User::own();
    if !own.is_root() && !own.is(found.uid()) {
        return Err(Failure::failed(
            format!(
                "{} belongs to user {}: only that user and root may replace it",
                path.display(),
                found.uid()
            ),
            "run it as that user or as root, or let the application use another socket (--listen PATH)",
        ));
    }
    Ok((found, word))
}

/// Put back what a capture left that was killed together with its guard.
fn repair(path: &Path) -> Result<Option<String>, Failure> {
    let (aside, new) = (aside(path), with_suffix(path, NEW));
    if identity(&new).is_some() {
        if is_alive(&new) {
            return Err(another(path));
        }
        let _ = fs::remove_file(&new);
    }
    let Some(found) = identity(&aside) else {
        return Ok(None);
    };
    if identity(path) == Some(found) {
        // Left by one that was killed before it had the place, or one that is about to have it: whoever takes it makes sure.
        return Ok(None);
    }
    let failed = |error: io::Error, hint: String| {
        let message = format!("a killed capture has left {}: {error}", aside.display());
        Failure::failed(message, hint)
    };
    if !is_alive(&aside) {
        let hint = || format!("remove it: rm {}", shown(&aside));
        fs::remove_file(&aside).map_err(|error| failed(error, hint()))?;
        return Ok(Some(format!(
            "removed {}, which a killed capture had left",
            aside.display()
        )));
    }
    if is_alive(path) {
        return Err(another(path));
    }
    fs::rename(&aside, path).map_err(|error| failed(error, back(path)))?;
    Ok(Some(format!(
        "put the server's socket back to {}: a killed capture had left it aside",
        path.display()
    )))
}

fn shown(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// What puts the server's socket back.
fn back(path: &Path) -> String {
    format!("put it back: mv {} {}", shown(&aside(path)), shown(path))
}

fn another(path: &Path) -> Failure {
    Failure::failed(
        format!("another capture has replaced {}", path.display()),
        "end it first (Ctrl-C, or SIGTERM to its process)",
    )
}

/// Take the place: what listens there from now on, with the owner and rights of the server's own.
///
/// # Errors
/// Another capture that has it, or a folder that we may not write in.
pub fn take(path: &Path, server: &Metadata) -> Result<(Socket, Taken), Failure> {
    let (listener, inode) = listen_as_new(path, server)?;
    let new = with_suffix(path, NEW);
    let failed = |error: io::Error| {
        let _ = fs::remove_file(&new);
        cannot_take(path, &error)
    };
    set_aside(path).inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })?;
    // It removes the second name: nobody guards one that another capture has made.
    let guard = guard(path, inode).map_err(|error| {
        let _ = fs::remove_file(aside(path));
        failed(error)
    })?;
    let taken = Taken {
        path: path.to_owned(),
        guard,
    };
    fs::rename(&new, path).map_err(failed)?;
    Ok((listener, taken))
}

/// Our socket under the name that one capture at a time has, and its inode. It listens before it gets the name: a socket with the name
/// that nobody listens on is a dead capture's.
fn listen_as_new(path: &Path, server: &Metadata) -> Result<(Socket, u64), Failure> {
    let (new, own) = (with_suffix(path, NEW), own_name(path));
    let listener = Place::File(own.clone()).listen(server.mode() & 0o777)?;
    let renamed = renamed(&own, &new, server);
    let _ = fs::remove_file(&own);
    match renamed {
        Ok(inode) => Ok((listener, inode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(another(path)),
        Err(error) => Err(cannot_take(path, &error)),
    }
}

/// Give our socket the server's owner and the name `new`, unless somebody has that.
fn renamed(own: &Path, new: &Path, server: &Metadata) -> io::Result<u64> {
    if User::own().is_root() {
        chown(own, Some(server.uid()), Some(server.gid()))?;
    }
    let inode = identity(own).ok_or(io::ErrorKind::NotFound)?;
    fs::hard_link(own, new)?;
    Ok(inode)
}

/// A name in the same folder that no other process has.
fn own_name(path: &Path) -> PathBuf {
    path.with_file_name(format!(".upshift-{}", std::process::id()))
}

/// Give the server's socket its second name.
fn set_aside(path: &Path) -> Result<(), Failure> {
    let aside = aside(path);
    match fs::hard_link(path, &aside) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match identity(&aside) == identity(path) {
                true => Ok(()),
                false => Err(another(path)),
            }
        }
        linked => linked.map_err(|error| cannot_take(path, &error)),
    }
}

fn cannot_take(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(
        format!("cannot replace {}: {error}", path.display()),
        "this user needs the right to write in its folder",
    )
}

impl Taken {
    /// Give the place back; a word where there is none to be given back to.
    ///
    /// # Errors
    /// The guard could not.
    pub fn give_back(mut self) -> Result<Option<String>, Failure> {
        drop(self.guard.stdin.take());
        let failed = |why: String| {
            Failure::failed(
                format!(
                    "cannot give {} back to the server: {why}",
                    self.path.display()
                ),
                back(&self.path),
            )
        };
        let mut guard = self.guard;
        match guard.wait() {
            Ok(status) if status.success() => Ok(None),
            Ok(status) if status.code() == Some(i32::from(REPLACED)) => Ok(Some(format!(
                "the server has made a new socket at {} meanwhile, which stays",
                self.path.display()
            ))),
            Ok(status) => Err(failed(status.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// The guard's exit code where the place is not ours any more.
const REPLACED: u8 = 3;

/// Start the process that gives the place back when this one has ended, in whatever way: killed, aborted or done. It is in a process
/// group of its own, out of reach of the terminal's Ctrl-C.
fn guard(path: &Path, inode: u64) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;
    Command::new("/proc/self/exe")
        .arg0("upshift-stack")
        .arg("guard")
        .arg(path)
        .arg(inode.to_string())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// What the guard does: wait for the end of stdin, which is the end of the capture, then give the place back. Returns its exit code.
///
/// # Errors
/// The place could not be given back.
pub fn guard_place(path: &Path, inode: u64) -> io::Result<u8> {
    use std::sync::{Arc, atomic::AtomicBool};
    // A service manager sends these to every process of a service at once; ours outlives the capture.
    for signal in [
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    put_back(path, inode)
}

fn put_back(path: &Path, inode: u64) -> io::Result<u8> {
    let (aside, new) = (aside(path), with_suffix(path, NEW));
    if identity(&new).is_some_and(|found| found == inode) {
        fs::remove_file(&new)?;
    }
    let here = identity(path);
    if identity(&aside).is_none() {
        return Ok(0);
    }
    if here.is_none_or(|found| found == inode) {
        fs::rename(&aside, path)?;
        return Ok(0);
    }
    let taken = here != identity(&aside);
    fs::remove_file(&aside)?;
    Ok(if taken { REPLACED } else { 0 })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    /// A folder of its own, open to all users, and a place for a server's socket in it.
    fn folder() -> (TempDir, PathBuf) {
        let all = fs::Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new().permissions(all).tempdir();
        let folder = folder.expect("a folder");
        let path = folder.path().join("s");
        (folder, path)
    }

    #[test]
    fn what_a_killed_capture_left_is_put_back() {
        let (_folder, path) = folder();
        let server = UnixListener::bind(&path).expect("a server");
        fs::hard_link(&path, aside(&path)).expect("a second name");
        fs::remove_file(&path).expect("removes");
        drop(UnixListener::bind(&path).expect("a capture that was killed"));
        let (_, word) = check(&path).expect("repaired");
        assert!(word.expect("said").contains("put the server's socket back"));
        assert!(is_alive(&path) && !aside(&path).exists());
        // Killed before it had the place.
        fs::hard_link(&path, aside(&path)).expect("a second name");
        assert!(check(&path).expect("nothing to repair").1.is_none());
        set_aside(&path).expect("it has the name already");
        assert!(is_alive(&path) && is_alive(&aside(&path)));
        fs::remove_file(aside(&path)).expect("removes");
        // The server was started again after the kill.
        drop(UnixListener::bind(aside(&path)).expect("the old server's"));
        let (_, word) = check(&path).expect("repaired");
        assert!(word.is_some() && is_alive(&path));
        assert!(check(&path).expect("nothing to do").1.is_none());
        drop(server);
    }

    #[test]
    fn a_running_captures_place_is_not_taken() {
        let (_folder, path) = folder();
        let _server = UnixListener::bind(aside(&path)).expect("a server");
        let _capture = UnixListener::bind(&path).expect("a capture");
        let failure = check(&path).expect_err("taken");
        assert!(failure.message.contains("another capture"), "{failure:?}");
        // It was not there yet when we looked.
        let failure = set_aside(&path).expect_err("taken");
        assert!(failure.message.contains("another capture"), "{failure:?}");
        assert!(is_alive(&aside(&path)), "the server keeps its name");
        fs::rename(&path, with_suffix(&path, NEW)).expect("not there yet");
        let failure = check(&path).expect_err("about to be taken");
        assert!(failure.message.contains("another capture"), "{failure:?}");
    }

    #[test]
    fn a_socket_of_somebody_else_is_not_taken() {
        if !User::own().is_root() {
            eprintln!("NOT RUN: only root can act as another user");
            return;
        }
        let (_folder, path) = folder();
        let _server = UnixListener::bind(&path).expect("a server");
        let check_as_nobody = || User::NOBODY.acting(|| Ok(check(&path))).expect("root may");
        let failure = check_as_nobody().expect_err("root's");
        assert_eq!(failure.exit_code, 1);
        assert!(
            failure.message.contains("belongs to user 0")
                && failure.hint.contains("as that user or as root"),
            "{failure:?}"
        );
        assert!(is_alive(&path) && !aside(&path).exists());
        chown(&path, Some(65534), Some(65534)).expect("root may");
        assert!(check_as_nobody().is_ok(), "its own");
        assert!(check(&path).is_ok(), "root's right");
    }

    #[test]
    fn what_is_no_socket_is_not_taken() {
        let (_folder, path) = folder();
        assert_eq!(check(&path).expect_err("nothing there").exit_code, 1);
        fs::write(&path, "mine").expect("a file");
        assert_eq!(check(&path).expect_err("a file").exit_code, 2);
    }

    #[test]
    fn a_place_is_put_back_unless_the_server_made_a_new_one() {
        let (_folder, path) = folder();
        let _server = UnixListener::bind(aside(&path)).expect("a server");
        let capture = UnixListener::bind(&path).expect("a capture");
        let ours = identity(&path).expect("there");
        assert_eq!(put_back(&path, ours).expect("put back"), 0);
        assert!(is_alive(&path) && !aside(&path).exists());
        assert_eq!(put_back(&path, ours).expect("nothing to do"), 0);
        let _again = UnixListener::bind(aside(&path)).expect("the old server");
        assert_eq!(put_back(&path, ours).expect("the new one stays"), REPLACED);
        assert!(is_alive(&path) && !aside(&path).exists());
        drop(capture);
    }
}
