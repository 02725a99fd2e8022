//! Sizes as people write them: 512M, 4G, 16K.

use super::ConfigError;

/// Bytes of a size such as `4G`, `512M`, `16K`, `16KiB` or `4096` (powers of 1024).
pub fn parse_size_bytes(text: &str) -> Result<u64, ConfigError> {
    let wrong = || {
        ConfigError::new(
            "size",
            text,
            "write a whole number with K, M, G or T, for example 4G",
        )
    };
    let trimmed = text.trim();
    let digits = trimmed.len()
        - trimmed
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .len();
    let (number, unit) = trimmed.split_at(digits);
    let shift = match unit
        .to_ascii_uppercase()
        .trim_end_matches("IB")
        .trim_end_matches('B')
    {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::parse_size_bytes;

    #[test]
    fn sizes_people_write() {
        for (text, bytes) in [
            ("4G", 4 << 30),
            ("512M", 512 << 20),
            ("16k", 16 << 10),
            ("4KiB", 4096),
            ("0", 0),
            ("7", 7),
        ] {
            assert_eq!(parse_size_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "-1", "4X", "1.5G", "99999999999T", "4 G"] {
            assert!(parse_size_bytes(text).is_err(), "{text}");
        }
    }
}
