//! What is checked before a server starts with the tier: its data directory, what would make the tier useless, and room for the medium.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use tiercache::config::{Action, Config, MediumChoice, parse_size_bytes};
use tiercache::medium::Layout;
use tiercache::private;

use crate::failure::Failure;
use crate::memory;
use crate::options::Options;
use crate::user::User;

/// InnoDB's default, in MySQL and MariaDB.
const POOL_BYTES_DEFAULT: u64 = 128 << 20;
/// Folders below the data directory that are searched for data files: schemas.
const DEPTH_MAX: u32 = 2;

/// Refuses a data directory that is not InnoDB's; answers with warnings.
pub fn of_server(
    program: &Path,
    arguments: &[OsString],
    config: &Config,
) -> Result<Vec<String>, Failure> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let is_maria = name.starts_with("mariadbd");
    if !is_maria && !name.starts_with("mysqld") {
        return Ok(Vec::new());
    }
    let options = Options::of(arguments);
    let starts_empty = ["initialize", "initialize_insecure", "bootstrap"]
        .iter()
        .any(|name| options.is_on(name));
    let mut warnings = Vec::new();
    let pool_bytes = options
        .get("innodb_buffer_pool_size")
        .map_or(Some(POOL_BYTES_DEFAULT), |text| parse_size_bytes(text).ok());
    let folder = options
        .get("datadir")
        .map(Path::new)
        .filter(|_| !starts_empty);
    if let Some(folder) = folder {
        if options.get("innodb_data_home_dir").is_none() {
            refuse_unless_innodb(folder)?;
        }
        let data_bytes = data_bytes(folder, config, 0);
        if let (Some(pool), Some(data)) = (pool_bytes, data_bytes)
            && pool >= data
        {
            warnings.push(format!(
                "the buffer pool holds all data ({} MiB): the tier cannot make reads faster",
                data >> 20
            ));
        }
    }
    let uncompressed = !matches!(config.medium, MediumChoice::MemoryLz4);
    if uncompressed && pool_bytes.is_some_and(|pool| config.size_bytes < 2 * pool) {
        warnings.push(
            "the tier is smaller than twice the buffer pool: it also holds what the pool holds, and adds little".into(),
        );
    }
    if let Some(method) = options
        .get("innodb_flush_method")
        .filter(|method| !method.to_ascii_uppercase().starts_with("O_DIRECT"))
    {
        warnings.push(format!(
            "innodb_flush_method={method}: the kernel's page cache keeps a second copy of every page; O_DIRECT avoids it"
        ));
    }
    if is_maria && links_io_uring(program) && !options.is_off("innodb_use_native_aio") {
        warnings.push(
            "this server is built with io_uring, which the tier refuses: the server falls back by itself, to libaio or to no native AIO".into(),
        );
    }
    Ok(warnings)
}

/// An InnoDB data directory has its system tablespace, or MySQL's dictionary.
pub fn is_innodb(folder: &Path) -> bool {
    ["ibdata1", "mysql.ibd"]
        .iter()
        .any(|name| folder.join(name).is_file())
}

fn refuse_unless_innodb(folder: &Path) -> Result<(), Failure> {
    if is_innodb(folder) || is_closed(folder) {
        return Ok(());
    }
    Err(Failure::usage(
        format!(
            "{} is not an InnoDB directory: it has neither ibdata1 nor mysql.ibd",
            folder.display()
        ),
        "name the server's data directory with --datadir; make a new one first, without the tier (--initialize)",
    ))
}

/// Whether this user may not see what is in it, as where a service's command is printed for another user to run.
fn is_closed(folder: &Path) -> bool {
    let found = folder.join("ibdata1").metadata();
    found.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

fn links_io_uring(program: &Path) -> bool {
    const NAME: &[u8] = b"liburing.so";
    std::fs::read(program).is_ok_and(|bytes| bytes.windows(NAME.len()).any(|part| part == NAME))
}

/// Bytes of all data files; None where this user may not look at all of them.
fn data_bytes(folder: &Path, config: &Config, depth: u32) -> Option<u64> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let sizes = entries.map(|entry| {
        let (path, about) = (entry.path(), entry.metadata().ok()?);
        if about.is_dir() && depth < DEPTH_MAX {
            return data_bytes(&path, config, depth + 1);
        }
        let counts = about.is_file() && is_data(config, &path);
        Some(if counts { about.len() } else { 0 })
    });
    sizes.sum()
}

fn is_data(config: &Config, path: &Path) -> bool {
    config.rules.action(path.as_os_str().as_encoded_bytes()) != Action::Skip
}

/// Why a medium is refused.
pub struct Refusal {
    failure: Failure,
    /// Another user, or the same one later, may use it.
    may_pass: bool,
}

impl Refusal {
    /// For a server that is started now.
    pub fn at_start(self) -> Failure {
        self.failure
    }

    /// For settings that are printed for another user or another time: a warning, if it is not refused then, too.
    pub fn when_printed(self) -> Result<String, Failure> {
        if !self.may_pass {
            return Err(self.failure);
        }
        let what = self.failure.message;
        Ok(format!(
            "{what}: so it is now and for this user; the server's start decides"
        ))
    }

    fn now(failure: Failure) -> Self {
        Self {
            failure,
            may_pass: true,
        }
    }

    /// What the system said of a path; rights depend on the user.
    fn of(path: &Path, error: &io::Error, hint: &str) -> Self {
        Self {
            failure: Failure::usage(format!("{}: {error}", path.display()), hint),
            may_pass: error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            may_pass: false,
        }
    }
}

/// Refuses a medium that has no room, or that this user may not use.
pub fn of_medium(config: &Config, user: User) -> Result<(), Refusal> {
    match &config.medium {
        MediumChoice::Memory | MediumChoice::MemoryLz4 => {
            memory::refuse_more_than_available(config.size_bytes, None).map_err(Refusal::now)
        }
        MediumChoice::File(path) | MediumChoice::Direct(path) => {
            let (room_bytes, whose) = room(path, user)?;
            let needed_bytes = Layout::new(config).file_bytes();
            if needed_bytes <= room_bytes {
                return Ok(());
            }
            Err(Failure::usage(
                format!(
                    "a tier with --size {} MiB needs {} MiB with its index, and {whose} has room for {} MiB",
                    config.size_bytes >> 20,
                    needed_bytes.div_ceil(1 << 20),
                    room_bytes >> 20
                ),
                "choose a smaller --size or another medium",
            )
            .into())
        }
    }
}

/// Bytes that the medium may take: of a device all, else what is free and what the file has already.
fn room(path: &Path, user: User) -> Result<(u64, String), Refusal> {
    const ELSEWHERE: &str = "name a file in a folder on the fast medium, or a device";
    const TO_USER: &str =
        "let the server's user read and write the device, for example by a rule of udev";
    let about = path.metadata().ok();
    if about
        .as_ref()
        .is_some_and(|about| about.file_type().is_block_device())
    {
        use std::io::{Seek, SeekFrom};
        user.acting(|| may_write(path))
            .map_err(|error| Refusal::of(path, &error, TO_USER))?;
        let end = std::fs::File::open(path).and_then(|mut device| device.seek(SeekFrom::End(0)));
        return Ok((
            end.map_err(|error| Refusal::of(path, &error, ELSEWHERE))?,
            path.display().to_string(),
        ));
    }
    if about.as_ref().is_some_and(|about| !about.is_file()) {
        return Err(Failure::usage(
            format!("{} is neither a file nor a device", path.display()),
            "name the file itself, for example file:/fast/tier",
        )
        .into());
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let free_bytes =
        capacity::disk_bytes(folder).map_err(|error| Refusal::of(folder, &error, ELSEWHERE))?;
    let written = if about.is_some() { path } else { folder };
    user.acting(|| may_write(written))
        .map_err(|error| Refusal::of(written, &error, ELSEWHERE))?;
    // What the tier itself refuses: the server would run without it.
    if let Ok(found) = path.symlink_metadata() {
        private::check(&found, user.uid).map_err(|error| Refusal {
            may_pass: found.is_file() && found.uid() != user.uid,
            failure: {
                let (path, user) = (path.display(), user.uid);
                Failure::usage(
                    format!("{path}: {error}"),
                    format!("name a new file, or make it the server's user's alone: chown {user} {path}; chmod 600 {path}"),
                )
            },
        })?;
    }
    // st_blocks counts units of 512 bytes, whatever the file system's block is.
    let own_bytes = about.map_or(0, |about| about.blocks() * 512);
    Ok((
        free_bytes + own_bytes,
        format!("the file system of {}", folder.display()),
    ))
}

/// Whether the acting user may read and write the file, or make files in the folder.
fn may_write(path: &Path) -> io::Result<()> {
    let mode = if path.is_dir() {
        libc::W_OK | libc::X_OK
    } else {
        libc::R_OK | libc::W_OK
    };
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends in NUL and is only read.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(program: &str, words: &[&str]) -> Result<Vec<String>, Failure> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        of_server(Path::new(program), &words, &Config::default())
    }

    #[test]
    fn a_folder_without_innodb_is_refused_but_for_a_server_that_makes_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = format!("--datadir={}", folder.path().display());
        let refused = of("mysqld", &["--no-defaults", &data]).unwrap_err();
        assert!(refused.message.contains("not an InnoDB directory") && refused.exit_code == 2);
        assert!(of("mysqld", &["--no-defaults", "--initialize-insecure", &data]).is_ok());
        assert_eq!(
            of("fio", &[&data]).expect("no server"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_makes_the_tier_useless_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("ibdata1"), [0; 4096]).expect("file");
        let data = format!("--datadir={}", folder.path().display());
        let warnings = of(
            "mysqld",
            &[
                "--no-defaults",
                &data,
                "--innodb-flush-method=fsync",
                "--innodb-buffer-pool-size=1G",
            ],
        );
        let text = warnings.expect("warnings only").join("\n");
        for said in ["holds all data", "twice the buffer pool", "second copy"] {
            assert!(text.contains(said), "{text}");
        }
        // It falls back by itself; a setting would take libaio from it, too.
        let server = folder.path().join("mariadbd");
        std::fs::write(&server, b"liburing.so.2").expect("file");
        let server = server.to_str().expect("UTF-8");
        let text = of(server, &["--no-defaults", &data]).expect("warnings only");
        let text = text.join("\n");
        assert!(text.contains("falls back by itself"), "{text}");
        assert!(!text.contains("innodb_use_native_aio"), "{text}");
        let quiet = of(
            "mysqld",
            &[
                "--no-defaults",
                "--innodb-buffer-pool-size=64M",
                "--innodb-flush-method=O_DIRECT",
            ],
        );
        assert_eq!(quiet.expect("nothing"), Vec::<String>::new());
    }

    #[test]
    fn a_medium_without_room_or_place_is_refused() {
        let with = |medium: MediumChoice, size_bytes: u64| {
            of_medium(
                &Config {
                    medium,
                    size_bytes,
                    ..Config::default()
                },
                User::own(),
            )
            .map_err(Refusal::at_start)
            .map_err(|failure| (failure.exit_code, failure.message))
        };
        let folder = std::env::temp_dir();
        assert!(with(MediumChoice::File(folder.join("tier")), 1 << 20).is_ok());
        let (exit_code, message) =
            with(MediumChoice::File(folder.join("tier")), 1 << 60).unwrap_err();
        assert!(
            exit_code == 2 && message.contains("and the file system of"),
            "{message}"
        );
        // The pages alone would have room. Somebody else may write meanwhile.
        let room = room(&folder.join("tier"), User::own()).map_err(Refusal::at_start);
        let (room_bytes, _) = room.expect("a folder");
        let (exit_code, message) = with(
            MediumChoice::File(folder.join("tier")),
            room_bytes - (2 << 20),
        )
        .unwrap_err();
        assert!(
            exit_code == 2 && message.contains("with its index"),
            "{message}"
        );
        assert_eq!(
            with(MediumChoice::Direct("/no/such/folder/x".into()), 1 << 20)
                .unwrap_err()
                .0,
            2
        );
        assert_eq!(with(MediumChoice::File(folder), 1 << 20).unwrap_err().0, 2);
        assert_eq!(with(MediumChoice::Memory, 1 << 60).unwrap_err().0, 2);
    }
}
