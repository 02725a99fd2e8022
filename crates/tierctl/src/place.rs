//! Where the statistics pages of running servers lie, and which one is meant.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tiercache::status::StatusPage;

use crate::failure::Failure;

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

/// The page of a new server with this process id; makes the folder.
pub fn for_new(pid: u32) -> Result<PathBuf, Failure> {
    let folder = folder();
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)))
        .map_err(|error| {
            Failure::failed(
                format!("{} cannot be made: {error}", folder.display()),
                "name a place for the statistics page with --status",
            )
        })?;
    Ok(folder.join(format!("tier-{pid}.status")))
}

/// The page that is meant: the one named, or the only one of a running server.
pub fn find(which: &Which) -> Result<StatusPage, Failure> {
    if let Some(path) = &which.status {
        return attach(path);
    }
    if let Some(pid) = which.pid {
        return attach(&folder().join(format!("tier-{pid}.status")));
    }
    let mut running: Vec<StatusPage> = std::fs::read_dir(folder())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| StatusPage::attach(&entry.path()).ok())
        .filter(StatusPage::alive)
        .collect();
    match running.len() {
        1 => Ok(running.remove(0)),
        0 => Err(Failure::failed(
            format!(
                "no server runs with a tier ({} has no live page)",
                folder().display()
            ),
            "start one with `upshift cache run`, or name its page with --status",
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

fn attach(path: &Path) -> Result<StatusPage, Failure> {
    StatusPage::attach(path).map_err(|error| {
        Failure::failed(
            error.to_string(),
            "`upshift cache stat` without --pid and --status finds the running server",
        )
    })
}
