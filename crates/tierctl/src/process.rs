//! Other processes, as /proc shows them.

use std::collections::HashMap;

use crate::failure::Failure;

/// All process ids.
pub fn all() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The environment that the process was started with.
pub fn variables(pid: u32) -> Result<HashMap<String, String>, Failure> {
    let text = read(&format!("/proc/{pid}/environ"))?;
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    Ok(pairs
        .map(|(name, value)| (name.into(), value.into()))
        .collect())
}

/// The user that the process acts as. Not the owner of its folder below /proc, which is root when it gave up rights.
pub fn user(pid: u32) -> Option<u32> {
    let status = read(&format!("/proc/{pid}/status")).ok()?;
    // Real, effective, saved and file system user.
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A file below /proc.
pub fn read(path: &str) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::failed(
            format!("{path} cannot be read: {error}"),
            "run this command as root or as the server's own user",
        )
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_own_environment_is_read() {
        let own = std::process::id();
        assert!(super::all().contains(&own));
        // SAFETY: geteuid takes no arguments and cannot fail.
        assert_eq!(super::user(own), Some(unsafe { libc::geteuid() }));
        let variables = super::variables(own).expect("own environment");
        assert_eq!(variables.get("PATH").cloned(), std::env::var("PATH").ok());
    }
}
