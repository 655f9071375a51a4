//! Sizes as people write them: `48k`, `16Ki`, `1.5M`, `1e6`, `49_152`. Exact, without floating
//! point.

/// What may stand behind a number, and what it stands for; longer ones first.
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
    let digits = whole.chars().chain(fraction.chars()).filter_map(|c| c.to_digit(10));
    let mut digits = digits.map(u128::from);
    let value = digits.try_fold(0_u128, |sum, digit| sum.checked_mul(10)?.checked_add(digit))?;
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

fn split_unit(text: &str) -> (&str, u64) {
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    unit.unwrap_or((text, 1))
}

#[cfg(test)]
mod tests {
    use super::size;

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
            ("2.50e1", Some(25)),
            ("99999999999999999999999999999999999999999999", None),
            ("1e99999999999999999999", None),
            ("0e99999999999999999999", Some(0)),
        ];
        for (text, expected) in cases {
            assert_eq!(size(text), expected, "{text}");
        }
    }
}
