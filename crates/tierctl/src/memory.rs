//! Whether memory has room for a tier.

use crate::failure::Failure;

/// Refuses a size that memory cannot hold now, under the limit of the control groups of a process too; None: of this one.
pub fn refuse_more_than_available(size_bytes: u64, pid: Option<u32>) -> Result<(), Failure> {
    match capacity::memory_bytes(pid) {
        Some(available_bytes) if available_bytes < size_bytes => Err(Failure::usage(
            format!(
                "a tier of {} MiB needs more memory than is available ({} MiB)",
                size_bytes >> 20,
                available_bytes >> 20
            ),
            "choose a smaller size, or a file as the medium",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_machine_has_is_refused() {
        assert!(refuse_more_than_available(1 << 20, None).is_ok());
        assert!(refuse_more_than_available(1, Some(u32::MAX)).is_ok());
        let refused = refuse_more_than_available(u64::MAX, None).unwrap_err();
        assert!(refused.message.contains("than is available"));
    }
}
