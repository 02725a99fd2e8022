//! Where the statistics pages of running servers lie, and which one is meant.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::{Path, PathBuf};

use tiercache::status::StatusPage;

use crate::failure::Failure;
use crate::process;
use crate::user::User;

const VARIABLE: &str = "UPSHIFT_TIER_STATUS";

/// Which running server.
#[derive(clap::Args)]
pub struct Which {
    /// Process id of the server.
    #[arg(long, conflicts_with = "status")]
    pub pid: Option<u32>,
    /// Its statistics page, if `run --status` named one.
    #[arg(long, value_name = "PATH")]
    pub status: Option<PathBuf>,
}

/// Where the page of a server of this user lies: for root's own `/run/upshift`, for those that root starts as another user
/// `/run/upshift-UID`; else `$XDG_RUNTIME_DIR/upshift` or `/tmp/upshift-UID`.
pub fn folder(user: u32) -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        _ if own_user() == 0 && user == 0 => PathBuf::from("/run/upshift"),
        _ if own_user() == 0 => PathBuf::from(format!("/run/upshift-{user}")),
        Some(runtime) => Path::new(&runtime).join("upshift"),
        None => PathBuf::from(format!("/tmp/upshift-{user}")),
    }
}

/// The page of a new server with this process id and user, in a folder that is not made yet.
pub fn of_new(pid: u32, user: u32) -> PathBuf {
    folder(user).join(format!("tier-{pid}.status"))
}

/// Makes the folder of our pages. One that others own or can enter is refused: they could put a page there that is not a server's.
pub fn make_folder(user: User) -> Result<(), Failure> {
    make_private(&folder(user.uid), user.uid)
}

fn make_private(folder: &Path, user: u32) -> Result<(), Failure> {
    if folder.symlink_metadata().is_err() {
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder);
        let given = made.and_then(|()| lchown(folder, Some(user), None));
        given.map_err(|error| refused(folder, &format!("cannot be made: {error}")))?;
    }
    let about = folder
        .symlink_metadata()
        .map_err(|error| refused(folder, &error.to_string()))?;
    if !about.is_dir() || about.uid() != user {
        return Err(refused(
            folder,
            "is not a folder that belongs to the server's user",
        ));
    }
    if about.mode() & 0o077 != 0 {
        return Err(refused(
            folder,
            "can be entered by other users (its mode is not 0700)",
        ));
    }
    Ok(())
}

fn refused(folder: &Path, why: &str) -> Failure {
    Failure::failed(
        format!("{} {why}", folder.display()),
        "name another file for the statistics page with --status",
    )
}

/// The page that is meant: the one named, or the only one of a running server.
pub fn find(which: &Which) -> Result<StatusPage, Failure> {
    if let Some(path) = &which.status {
        return attach(path, owner_named(path));
    }
    if let Some(pid) = which.pid {
        return attach(
            &of_process(pid),
            process::user(pid).unwrap_or_else(own_user),
        );
    }
    let mut running = running();
    match running.len() {
        1 => Ok(running.remove(0)),
        0 => Err(Failure::failed(
            "no server runs with a tier",
            "start one with `upshift cache run`, run this command as root to see the servers of all users, or name a statistics page with --status",
        )),
        _ => {
            let pids: Vec<String> = running.iter().map(|page| page.pid().to_string()).collect();
            Err(Failure::usage(
                format!(
                    "several servers run with a tier, as processes {}",
                    pids.join(", ")
                ),
                "choose one with --pid",
            ))
        }
    }
}

/// The pages of running servers: each server's own environment says where its page is. Anybody can write anything into
/// his environment, so a page counts only when it belongs to the user of that process and names a process of his.
fn running() -> Vec<StatusPage> {
    let mut pages: Vec<StatusPage> = Vec::new();
    for pid in process::all() {
        let (Some(path), Some(user)) = (said(pid), process::user(pid)) else {
            continue;
        };
        let page = StatusPage::attach_of(&path, user).ok();
        // What the server started inherits the variable, but the page is the server's.
        let known = |page: &StatusPage| pages.iter().any(|each| each.pid() == page.pid());
        let counts = |page: &StatusPage| {
            page.alive() && process::user(page.pid()) == Some(user) && !known(page)
        };
        pages.extend(page.filter(counts));
    }
    pages
}

/// Where the process's own environment says, else where `run` puts its page.
fn of_process(pid: u32) -> PathBuf {
    said(pid).unwrap_or_else(|| of_new(pid, process::user(pid).unwrap_or_else(own_user)))
}

/// Where the process's own environment says that its page is. A relative path begins at the folder that a server goes to
/// before its tier opens, its data directory.
fn said(pid: u32) -> Option<PathBuf> {
    let value = process::variables(pid).ok()?.remove(VARIABLE)?;
    Some(PathBuf::from(format!("/proc/{pid}/cwd")).join(value))
}

fn own_user() -> u32 {
    User::own().uid
}

/// Whose page it must be: this user's; root names the page of any user.
fn owner_named(path: &Path) -> u32 {
    let user = own_user();
    match path.symlink_metadata() {
        Ok(about) if user == 0 => about.uid(),
        _ => user,
    }
}

fn attach(path: &Path, owner: u32) -> Result<StatusPage, Failure> {
    StatusPage::attach_of(path, owner).map_err(|error| {
        Failure::failed(
            error.to_string(),
            "`upshift cache stat` without --pid and --status finds the running server",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_folder_that_no_one_else_can_enter_is_used() {
        let base = tempfile::tempdir().expect("folder");
        let (own, link) = (base.path().join("own"), base.path().join("link"));
        let user = own_user();
        let made = (make_private(&own, user), make_private(&own, user));
        std::os::unix::fs::symlink(&own, &link).expect("link");
        let linked = make_private(&link, user);
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).expect("mode");
        let open = make_private(&own, user);
        assert!(made.0.is_ok() && made.1.is_ok());
        assert!(linked.is_err_and(|failure| failure.message.contains("not a folder")));
        assert!(open.is_err_and(|failure| failure.message.contains("0700")));
    }
}
