//! What `examples/capture_exchange.rs` captured, in the order in which it passed.

use std::path::Path;

use wire::passive::Side;

/// The bytes of a file of `tests/exchanges`, with who sent them.
pub fn captured(name: &str) -> Vec<(Side, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../wire/tests/exchanges")
        .join(name);
    let text = std::fs::read_to_string(path).expect("a captured exchange");
    let lines = text.lines().filter_map(|line| {
        let side = match line.split_at(2) {
            ("> ", _) => Side::Client,
            ("< ", _) => Side::Server,
            _ => return None,
        };
        let digits = &line[2..];
        let bytes = (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hexadecimal"));
        Some((side, bytes.collect()))
    });
    lines.collect()
}
