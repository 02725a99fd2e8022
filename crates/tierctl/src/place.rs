//! Where the statistics pages of running servers lie, and which one is meant.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use tiercache::status::StatusPage;

use crate::failure::Failure;
use crate::process;

const VARIABLE: &str = "UPSHIFT_TIER_STATUS";

/// Which running server.
#[derive(clap::Args)]
pub struct Which {
    /// Process id of the server.
    #[arg(long)]
    pub pid: Option<u32>,
    /// Its statistics page, where `run --status` put it elsewhere.
    #[arg(long, value_name = "PATH")]
    pub status: Option<PathBuf>,
}

/// `/run/upshift` for root, `$XDG_RUNTIME_DIR/upshift`, else `/tmp/upshift-UID`.
pub fn folder() -> PathBuf {
    // SAFETY: geteuid takes no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    match std::env::var_os("XDG_RUNTIME_DIR") {
        _ if user == 0 => PathBuf::from("/run/upshift"),
        Some(runtime) => Path::new(&runtime).join("upshift"),
        None => PathBuf::from(format!("/tmp/upshift-{user}")),
    }
}

/// The page of a new server with this process id, in a folder that is not made yet.
pub fn of_new(pid: u32) -> PathBuf {
    folder().join(format!("tier-{pid}.status"))
}

/// Makes the folder of our pages. One that others own or can enter is refused: they could put a page there that is not a server's.
pub fn make_folder() -> Result<(), Failure> {
    make_private(&folder())
}

fn make_private(folder: &Path) -> Result<(), Failure> {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(|error| refused(folder, &format!("cannot be made: {error}")))?;
    let about = folder
        .symlink_metadata()
        .map_err(|error| refused(folder, &error.to_string()))?;
    // SAFETY: geteuid takes no arguments and cannot fail.
    if !about.is_dir() || about.uid() != unsafe { libc::geteuid() } {
        return Err(refused(folder, "is not a folder of this user's"));
    }
    if about.mode() & 0o077 != 0 {
        return Err(refused(
            folder,
            "can be entered by others (its mode is not 0700)",
        ));
    }
    Ok(())
}

fn refused(folder: &Path, why: &str) -> Failure {
    Failure::failed(
        format!("{} {why}", folder.display()),
        "name another place for the statistics page with --status",
    )
}

/// The page that is meant: the one named, or the only one of a running server.
pub fn find(which: &Which) -> Result<StatusPage, Failure> {
    if let Some(path) = &which.status {
        return attach(path);
    }
    if let Some(pid) = which.pid {
        return attach(&of_process(pid));
    }
    let mut running = running();
    match running.len() {
        1 => Ok(running.remove(0)),
        0 => Err(Failure::failed(
            "no server runs with a tier",
            "start one with `upshift cache run`; root sees the servers of all users; or name a page with --status",
        )),
        _ => {
            let pids: Vec<String> = running.iter().map(|page| page.pid().to_string()).collect();
            Err(Failure::usage(
                format!(
                    "several servers run with a tier: processes {}",
                    pids.join(", ")
                ),
                "choose one with --pid",
            ))
        }
    }
}

/// The pages of running servers: each server's own environment says where its page is.
fn running() -> Vec<StatusPage> {
    let mut pages: Vec<StatusPage> = Vec::new();
    for pid in process::all() {
        let place = process::variables(pid)
            .ok()
            .and_then(|mut all| all.remove(VARIABLE));
        let page = place.and_then(|path| StatusPage::attach(Path::new(&path)).ok());
        // What the server started inherits the variable, but the page is the server's.
        let known = |page: &StatusPage| pages.iter().any(|each| each.pid() == page.pid());
        pages.extend(page.filter(|page| page.alive() && !known(page)));
    }
    pages
}

/// Where the process's own environment says, else where `run` puts its page.
fn of_process(pid: u32) -> PathBuf {
    let said = process::variables(pid)
        .ok()
        .and_then(|mut all| all.remove(VARIABLE));
    said.map_or_else(|| of_new(pid), PathBuf::from)
}

fn attach(path: &Path) -> Result<StatusPage, Failure> {
    StatusPage::attach(path).map_err(|error| {
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
        let base = std::env::temp_dir().join(format!("tierctl-place-{}", std::process::id()));
        std::fs::create_dir(&base).expect("folder");
        let (own, link) = (base.join("own"), base.join("link"));
        let made = (make_private(&own), make_private(&own));
        std::os::unix::fs::symlink(&own, &link).expect("link");
        let linked = make_private(&link);
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).expect("mode");
        let open = make_private(&own);
        std::fs::remove_dir_all(&base).expect("remove");
        assert!(made.0.is_ok() && made.1.is_ok());
        assert!(linked.is_err_and(|failure| failure.message.contains("not a folder")));
        assert!(open.is_err_and(|failure| failure.message.contains("0700")));
    }
}
