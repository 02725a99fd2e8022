//! `run --print-systemd`: the environment of the library as a drop-in of a unit.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::failure::Failure;
use crate::{output, run};

/// Print the drop-in.
pub fn print(library: &Path, variables: &[(&str, String)], own_page: bool) -> Result<(), Failure> {
    if let Some(why) = why_not(library) {
        return Err(Failure::usage(
            format!("{} {why}: a service must not preload it", library.display()),
            format!(
                "install it first: sudo install -m 644 {} /usr/local/lib/libupshift_tier.so; then add --library /usr/local/lib/libupshift_tier.so",
                library.display()
            ),
        ));
    }
    output::line("# systemctl edit mysql, paste this, then systemctl restart mysql\n[Service]")?;
    output::line(&environment("LD_PRELOAD", &library.to_string_lossy()))?;
    // The tier belongs to the process that the unit starts, and to no program that the server starts.
    output::line(&environment("UPSHIFT_TIER_OWNER", "systemd"))?;
    // A unit never formats.
    for (name, value) in variables.iter().filter(|(name, _)| *name != run::FORMAT) {
        if *name == "UPSHIFT_TIER_STATUS" && own_page {
            // No mode and nothing kept: that would hold for the folder of the server's socket, too. The page itself is its
            // user's alone.
            output::line("RuntimeDirectory=upshift-mysql")?;
            output::line(&environment(name, "/run/upshift-mysql/tier.status"))?;
        } else {
            output::line(&environment(name, value))?;
        }
    }
    Ok(())
}

/// Why a service should not load a file: somebody but root can change it, its next build replaces it, or the service's user cannot
/// read it.
fn why_not(library: &Path) -> Option<&'static str> {
    for part in library.ancestors() {
        let Ok(about) = part.symlink_metadata() else {
            return Some("cannot be examined");
        };
        let sticky = about.permissions().mode() & 0o1000 != 0;
        if about.uid() != 0 || about.mode() & 0o022 != 0 && !sticky {
            return Some("can be changed by users other than root");
        }
        let needed = if about.is_dir() { 0o001 } else { 0o004 };
        if about.mode() & needed == 0 {
            return Some("cannot be read by the service's user");
        }
    }
    let is_built = |folder: &Path| {
        folder.join("CACHEDIR.TAG").exists() || folder.join(".fingerprint").exists()
    };
    library
        .ancestors()
        .any(is_built)
        .then_some("lies in a build folder, whose files the next build replaces")
}

/// A line of a unit file, quoted as systemd reads it (`%` starts a specifier there).
fn environment(name: &str, value: &str) -> String {
    let value = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%");
    format!("Environment=\"{name}={value}\"")
}

#[cfg(test)]
mod tests {
    use super::environment;

    #[test]
    fn values_are_quoted_for_systemd() {
        assert_eq!(
            environment("A", r#"50% "x""#),
            r#"Environment="A=50%% \"x\"""#
        );
    }
}
