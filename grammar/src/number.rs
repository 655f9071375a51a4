//! Numbers with units, as programs and options write them: sizes (`48k`, `16Ki`, `1.5M`, `1e6`,
//! `49_152`), which are exact and computed without floating point, bytes (`16GiB`) and times
//! (`300us`).

/// The units of sizes and their factors; a unit that ends in another one comes first.
const UNITS: [(&str, u64); 9] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

/// The number in `text`; `None` unless it is whole and below 2^64.
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text);
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = whole.chars().chain(fraction.chars()).filter(|&c| c != '_');
    let value = digits.try_fold(0_u128, |sum, digit| {
        sum.checked_mul(10)?.checked_add(u128::from(digit.to_digit(10)?))
    })?;
    if value == 0 {
        return Some(0);
    }
    let value = value.checked_mul(u128::from(unit))?;
    let scale = exponent.parse::<i64>().ok()? - i64::try_from(fraction.len()).ok()?;
    let power = 10_u128.checked_pow(u32::try_from(scale.unsigned_abs()).ok()?)?;
    let value = match scale {
        0.. => value.checked_mul(power)?,
        _ if value.is_multiple_of(power) => value / power,
        _ => return None,
    };
    u64::try_from(value).ok()
}

/// The units of bytes and their factors; a unit that ends in another one comes first.
const BYTE_UNITS: [(&str, f64); 19] = [
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("B", 1.0),
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
];

/// The units of times and their factors; a unit that ends in another one comes first.
const TIME_UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0)];

/// Bytes with their unit: `300MB`, `16 GiB`, `16G`. `None` unless finite and not negative.
pub fn bytes(text: &str) -> Option<f64> {
    quantity(text, &BYTE_UNITS)
}

/// Seconds, from a time with its unit: `2ms`, `1.5 s`. `None` unless finite and not negative.
pub fn seconds(text: &str) -> Option<f64> {
    quantity(text, &TIME_UNITS)
}

fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let value = number.trim_end().parse::<f64>().ok()? * factor;
    (value.is_finite() && value >= 0.0).then_some(value)
}

fn split_unit(text: &str) -> (&str, u64) {
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    unit.unwrap_or((text, 1))
}

#[cfg(test)]
mod tests {
    use super::{bytes, seconds, size};

    #[test]
    fn sizes_are_exact() {
        let cases = [
            ("4096", Some(4096)),
            ("48k", Some(48_000)),
            ("16Ki", Some(16_384)),
            ("2Mi", Some(2 << 20)),
            ("1e6", Some(1_000_000)),
            ("1.5M", Some(1_500_000)),
            ("49_152", Some(49_152)),
            ("1e19", Some(10_000_000_000_000_000_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("1e20", None),
            ("1.5", None),
            ("2*512", None),
            ("0x400", None),
            ("4 Y=2", None),
            ("10foo24", None),
            ("1e2e3", None),
            ("1.2.3", None),
            ("2.50e1", Some(25)),
            ("99999999999999999999999999999999999999999999", None),
            ("1e99999999999999999999", None),
            ("0e99999999999999999999", Some(0)),
        ];
        for (text, expected) in cases {
            assert_eq!(size(text), expected, "{text}");
        }
    }

    #[test]
    fn bytes_and_times_need_a_unit() {
        assert_eq!(bytes("300MB"), Some(3e8));
        assert_eq!(bytes("16 GiB"), Some(f64::from(1 << 30) * 16.0));
        assert_eq!(bytes("64B"), Some(64.0));
        assert_eq!(bytes("16G"), bytes("16GB"));
        assert_eq!(bytes("16Gi"), bytes("16GiB"));
        assert_eq!(seconds("2ms"), Some(0.002));
        assert_eq!(seconds("1.5 s"), Some(1.5));
        for wrong in ["", "1e9", "-1B", "infB", "NaNB", "1 XB", "GB"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        for wrong in ["2", "2 m", "2mms", "-1s"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
