//! A capture of two connections, imported.

use trace::{Begin, Capture, Ending, TraceWriter};

use super::super::{Imported, import};
use crate::replay::Trace;
use crate::replay::tests::Scratch;

/// What the import of it says, and what `look` finds in the trace, whose file is gone afterwards.
pub(super) fn captured<T>(
    name: &str,
    capture: impl FnOnce(&TraceWriter) -> Ending,
    look: impl FnOnce(Trace) -> T,
) -> (Imported, T) {
    let (from, to) = (
        Scratch::new(&format!("{name}-capture")),
        Scratch::new(&format!("{name}-trace")),
    );
    let begin = Begin {
        family: "mysql".to_owned(),
        began_unix_us: 0,
        capture: Capture::Proxy,
        masked: false,
        log: None,
    };
    let writer = TraceWriter::create(&from.path, &begin, 0).expect("creates");
    writer.connected(0, false);
    writer.connected(0, false);
    let ending = capture(&writer);
    writer.finish(ending).expect("writes");
    let made = import(&from.path, &to.path).expect("a trace");
    (made, look(Trace::open(&to.path, false).expect("opens")))
}
