//! What /proc says of a server: its library, its data files, who else has them.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;
use tiercache::config::{Action, Config};

use crate::failure::Failure;
use crate::process;

/// A way past the tier that is open.
#[derive(Serialize, Debug, PartialEq)]
pub struct Finding {
    /// library_missing, io_uring, mapped or open_elsewhere.
    pub kind: &'static str,
    /// The process that has it.
    pub pid: u32,
    /// The data file; empty when it is about the whole process.
    pub file: String,
    /// For people.
    pub text: String,
}

/// Device and inode of a file.
type Identity = (u64, u64);

/// A running server under the tier.
pub struct Server {
    pid: u32,
    config: Config,
}

impl Server {
    /// The server with this process id; its rules come from its own environment.
    pub fn of(pid: u32) -> Result<Self, Failure> {
        let variables = process::variables(pid)?;
        let value = |name: &str| variables.get(name).map(Into::into);
        let config = Config::from_variables(value).map_err(|error| {
            Failure::failed(
                format!("the environment of process {pid}: {error}"),
                "start the server with `upshift cache run`, which checks its settings",
            )
        })?;
        Ok(Self { pid, config })
    }

    /// Whether a rule names this path.
    pub fn is_data(&self, path: &str) -> bool {
        self.config.rules.action(path.as_bytes()) != Action::Skip
    }

    /// How many data files it has open, and what /proc shows of ways past the tier.
    pub fn findings(&self) -> Result<(usize, Vec<Finding>), Failure> {
        let mut files: HashMap<Identity, String> = HashMap::new();
        let mut found = Vec::new();
        for (link, descriptor) in descriptors(self.pid) {
            if link.starts_with("anon_inode:[io_uring]") {
                found.push(self.own(
                    "io_uring",
                    "",
                    "the server has an io_uring, whose requests the library does not see",
                ));
            } else if let (true, Some(identity)) = (self.is_data(&link), identity(&descriptor)) {
                files.insert(identity, link);
            }
        }
        let maps = process::read(&format!("/proc/{}/maps", self.pid))?;
        if !maps.contains("libupshift_tier.so") {
            found.push(self.own(
                "library_missing",
                "",
                "libupshift_tier.so is not loaded in the server",
            ));
        }
        for pid in process::all() {
            found.extend(self.elsewhere(pid, &files));
        }
        found.extend(
            mapped(&maps, &files)
                .map(|file| self.own("mapped", file, &format!("the server has mapped {file}"))),
        );
        Ok((files.len(), found))
    }

    fn own(&self, kind: &'static str, file: &str, text: &str) -> Finding {
        Finding {
            kind,
            pid: self.pid,
            file: file.into(),
            text: text.into(),
        }
    }

    /// Data files that another process has open or mapped. What another user's process has is only seen by root.
    fn elsewhere(&self, pid: u32, files: &HashMap<Identity, String>) -> Vec<Finding> {
        if pid == self.pid {
            return Vec::new();
        }
        let name = process::read(&format!("/proc/{pid}/comm")).unwrap_or_default();
        let maps = process::read(&format!("/proc/{pid}/maps")).unwrap_or_default();
        let open = descriptors(pid)
            .into_iter()
            .filter_map(|(_, descriptor)| files.get(&identity(&descriptor)?))
            .map(|file| ("open_elsewhere", file.as_str(), "opened"));
        let mut found: Vec<Finding> = open
            .chain(mapped(&maps, files).map(|file| ("mapped", file, "mapped")))
            .map(|(kind, file, verb)| Finding {
                kind,
                pid,
                file: file.into(),
                text: format!("process {pid} ({}) has {verb} {file}", name.trim()),
            })
            .collect();
        found.dedup();
        found
    }
}

/// Descriptors of a process: where each points, and its own path. None when it ended or is another user's.
fn descriptors(pid: u32) -> Vec<(String, std::path::PathBuf)> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let links = entries.into_iter().flatten().flatten().filter_map(|entry| {
        let link = std::fs::read_link(entry.path()).ok()?;
        Some((link.to_string_lossy().into_owned(), entry.path()))
    });
    links.collect()
}

fn identity(path: &Path) -> Option<Identity> {
    let about = path.metadata().ok().filter(|about| about.is_file())?;
    Some((about.dev(), about.ino()))
}

/// Data files in the text of a `maps`: lines of range, rights, offset, device (major:minor in hexadecimal), inode, path.
fn mapped<'a>(
    maps: &'a str,
    files: &'a HashMap<Identity, String>,
) -> impl Iterator<Item = &'a str> {
    maps.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(3);
        let (major, minor) = words.next()?.split_once(':')?;
        let inode = words.next()?.parse().ok()?;
        let number = |text| u32::from_str_radix(text, 16).ok();
        let device = libc::makedev(number(major)?, number(minor)?);
        files.get(&(device, inode)).map(String::as_str)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_data_file_is_found_by_device_and_inode() {
        let files = HashMap::from([((libc::makedev(8, 0x11), 77), "/d/a.ibd".to_owned())]);
        let maps = "7f00-7f10 r--p 00000000 08:11 76 /d/b.ibd\n7f10-7f20 rw-s 00000000 08:11 77 /d/a.ibd\n7f20-7f30 rw-p 0 00:00 0\n";
        assert_eq!(mapped(maps, &files).collect::<Vec<_>>(), ["/d/a.ibd"]);
    }
}
