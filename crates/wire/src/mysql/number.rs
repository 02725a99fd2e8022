//! Floating point numbers as the server writes them into text results, so that both encodings tell the same.

use std::io::{self, Write};

/// A column that was not declared with a number of digits after the point says this many or more.
const DECIMALS_UNSPECIFIED: u8 = 31;
/// The server writes a FLOAT with so many digits, though it holds more.
const FLOAT_DIGITS: usize = 6;
/// Up to so many digits before the point, and one less zeros after it, the server uses no exponent.
const PLAIN_DIGITS_MAX: i32 = 15;
/// The longest text of a finite double: its integer part, a point, 30 decimals and a sign, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 309 + 1 + 30 + 1;

/// Write a FLOAT.
pub(super) fn write_float(text: &mut impl Write, number: f32, decimals: u8) -> io::Result<()> {
    if decimals < DECIMALS_UNSPECIFIED {
        return write_fixed(text, number.into(), decimals);
    }
    let digits = FLOAT_DIGITS - 1;
    write_digits(text, &format!("{:.digits$e}", f64::from(number)))
}

/// Write a DOUBLE.
pub(super) fn write_double(text: &mut impl Write, number: f64, decimals: u8) -> io::Result<()> {
    if decimals < DECIMALS_UNSPECIFIED {
        return write_fixed(text, number, decimals);
    }
    // The fewest digits that mean this number; where two numbers of so many are as near, the even one.
    let shortest = format!("{:e}", number.abs());
    let mantissa = shortest
        .split_once('e')
        .map_or(0, |(mantissa, _)| mantissa.len());
    let decimals = mantissa.saturating_sub(2);
    write_digits(text, &format!("{number:.decimals$e}"))
}

fn write_fixed(text: &mut impl Write, number: f64, decimals: u8) -> io::Result<()> {
    write!(text, "{number:.0$}", usize::from(decimals))
}

/// Write what stands in scientific notation, `-1.25e-7`, in the server's.
fn write_digits(text: &mut impl Write, scientific: &str) -> io::Result<()> {
    let (sign, unsigned) = match scientific.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", scientific),
    };
    let (mantissa, exponent) = unsigned.split_once('e').unwrap_or((unsigned, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mut digits = mantissa.replace('.', "");
    digits.truncate(digits.trim_end_matches('0').len().max(1));
    let length = digits.len() as i32;
    // Digits before the point; below 1, zeros after it.
    let whole = exponent + 1;
    let is_plain = whole > -PLAIN_DIGITS_MAX && (whole <= PLAIN_DIGITS_MAX || length > whole);
    text.write_all(sign.as_bytes())?;
    if !is_plain {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return write!(text, "{first}{point}{rest}e{exponent}");
    }
    if whole <= 0 {
        return write!(text, "0.{:0>1$}", digits, (length - whole) as usize);
    }
    if whole >= length {
        return write!(text, "{:0<1$}", digits, whole as usize);
    }
    let (before, after) = digits.split_at(whole as usize);
    write!(text, "{before}.{after}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn double(number: f64, decimals: u8) -> String {
        let mut text = Vec::new();
        write_double(&mut text, number, decimals).expect("a Vec takes all");
        String::from_utf8(text).expect("ASCII")
    }

    #[test]
    fn doubles_as_mysql_writes_them() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (-1.5, "-1.5"),
            (100.0, "100"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (123_456_789_012_345.0, "123456789012345"),
            (1_234_567_890_123_456.8, "1234567890123456.8"),
            (4_394_015_228_313_917.0 / 4.0, "1098503807078479.2"),
            (1e-14, "0.00000000000001"),
            (1e-16, "1e-16"),
            (1.25e300, "1.25e300"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
        ] {
            assert_eq!(double(number, 31), expected);
        }
        assert_eq!(double(2.0 / 3.0, 3), "0.667");
        assert_eq!(double(f64::MIN, 30).len(), TEXT_BYTES_MAX);
    }

    #[test]
    fn floats_have_six_digits() {
        for (number, expected) in [(0.1, "0.1"), (16_777_216.0, "16777200"), (1e20, "1e20")] {
            let mut text = Vec::new();
            write_float(&mut text, number, 31).expect("a Vec takes all");
            assert_eq!(text, expected.as_bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_double_comes_back_from_its_text(number in any::<f64>()) {
            let text = double(number, 31);
            prop_assert_eq!(text.parse::<f64>().expect("a number"), number);
            prop_assert!(text.len() <= 40);
        }
    }
}
