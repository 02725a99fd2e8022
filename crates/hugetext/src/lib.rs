//! `libupshift_hugetext.so`: preloaded into an unmodified server, it moves the server's text onto transparent huge pages
//! before `main` begins.
//!
//! `segments` finds the text, `moving` copies it and puts the copy in its place, `smaps` says what the kernel gave. Nothing is
//! allocated: the program's allocator may not be ready yet. Whatever fails leaves the program as it was.

mod line;
mod moving;
mod segments;
mod smaps;

use std::ffi::CStr;

/// The file name of the program whose text is moved: other programs that inherit the environment are left alone.
const PROGRAM: &CStr = c"UPSHIFT_HUGETEXT_PROGRAM";
/// Set to anything but nothing: say in a line on stderr what was done.
const SAY: &CStr = c"UPSHIFT_HUGETEXT_SAY";
const MIB: usize = 1 << 20;

extern "C" fn set_up() {
    // SAFETY: the address is this thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    if is_named() {
        move_text();
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Whether this process executes the program that the environment names.
fn is_named() -> bool {
    let Some(name) = variable(PROGRAM) else {
        return false;
    };
    let mut path = [0_u8; libc::PATH_MAX as usize];
    let link = c"/proc/self/exe".as_ptr();
    // SAFETY: the link's name ends in a zero byte, and the buffer has the length that is said.
    let length = unsafe { libc::readlink(link, path.as_mut_ptr().cast(), path.len()) };
    let own = usize::try_from(length)
        .ok()
        .and_then(|length| path.get(..length))
        .and_then(|path| path.rsplit(|&byte| byte == b'/').next());
    own == Some(name)
}

/// An environment variable that is set, and not to nothing.
fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the name ends in a zero byte. Nobody changes the environment before `main`.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv's answer ends in a zero byte.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    (!value.is_empty()).then_some(value)
}

fn move_text() {
    let (mut moved, mut huge, mut refused) = (0, 0, None);
    for text in segments::executable().iter() {
        match moving::onto_huge_pages(text) {
            Ok(found) => {
                moved += text.len();
                huge += found;
            }
            Err(why) => refused = Some(why),
        }
    }
    if variable(SAY).is_none() {
        return;
    }
    match (moved, refused) {
        (0, None) => line::say(format_args!(
            "the text does not fill one huge page, and stays as it is"
        )),
        (0, Some(why)) => line::say(format_args!("{why}: the text stays as it is")),
        (_, _) => line::say(format_args!(
            "{} MiB of text moved, {} MiB of it on huge pages",
            moved / MIB,
            huge / MIB
        )),
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static SET_UP: extern "C" fn() = set_up;
