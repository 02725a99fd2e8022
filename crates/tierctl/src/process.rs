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

/// A file below /proc.
pub fn read(path: &str) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::failed(
            format!("{path} cannot be read: {error}"),
            "run it as root or as the server's own user",
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
        let variables = super::variables(own).expect("own environment");
        assert_eq!(variables.get("PATH").cloned(), std::env::var("PATH").ok());
    }
}
