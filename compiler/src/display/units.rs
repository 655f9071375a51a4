//! Quantities for people: three significant digits, decimal units, fixed width.

pub use shardwise_ir::counted;

/// `746 us`, `3.85 ms`, `0 s`.
pub fn seconds(seconds: f64) -> String {
    scaled(seconds, SECONDS)
}

/// `134 MB`, `96 GB`, `64 B`.
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, BYTES)
}

/// Units, the largest first.
type Units = &'static [(f64, &'static str)];

const SECONDS: Units = &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
const BYTES: Units = &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];

/// Two different times, with as many digits as tell them apart.
pub(crate) fn different_seconds(both: [f64; 2]) -> [String; 2] {
    different(both, SECONDS)
}

/// The next number up that is written exactly.
pub(crate) fn rounded_up(number: f64) -> f64 {
    let digits = i32::try_from(DIGITS).unwrap_or(i32::MAX) - 1;
    let step = 10_f64.powi(number.log10().floor() as i32 - digits);
    if number > 0.0 { (number / step).ceil() * step } else { number }
}

/// Two different numbers of bytes, with as many digits as tell them apart.
pub(crate) fn different_bytes(both: [f64; 2]) -> [String; 2] {
    different(both, BYTES)
}

fn different(both: [f64; 2], units: Units) -> [String; 2] {
    let written = |digits| both.map(|number| scaled_to(number, units, digits));
    let mut several = (DIGITS..MOST_DIGITS).map(written);
    several.find(|[a, b]| a != b).unwrap_or_else(|| written(MOST_DIGITS))
}

/// `+1.2 ms`, `-310 us`, `+0 ns`.
pub fn seconds_change(seconds: f64) -> String {
    signed(seconds, self::seconds)
}

/// `+134 MB`, `-64 B`.
pub fn bytes_change(bytes: f64) -> String {
    signed(bytes, self::bytes)
}

fn signed(number: f64, unit: impl Fn(f64) -> String) -> String {
    let size = unit(number.abs());
    let sign = if number < 0.0 && !size.starts_with("0 ") { '-' } else { '+' };
    format!("{sign}{size}")
}

/// `412 TFLOP`.
pub fn flops(flops: f64) -> String {
    scaled(
        flops,
        &[
            (1e15, "PFLOP"),
            (1e12, "TFLOP"),
            (1e9, "GFLOP"),
            (1e6, "MFLOP"),
            (1e3, "kFLOP"),
            (1.0, "FLOP"),
        ],
    )
}

/// `537 M`, `12`.
pub fn count(number: f64) -> String {
    scaled(number, &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")])
        .trim_end()
        .to_owned()
}

/// A plain number: whole from a thousand on, else of three significant digits.
pub fn number(number: f64) -> String {
    if number < 0.01 && number > 0.0 { format!("{number:.1e}") } else { significant(number) }
}

/// Significant digits, and those of a number that hardly differs from another one.
const DIGITS: usize = 3;
const MOST_DIGITS: usize = 12;

fn scaled(number: f64, units: &[(f64, &str)]) -> String {
    scaled_to(number, units, DIGITS)
}

fn scaled_to(number: f64, units: &[(f64, &str)], digits: usize) -> String {
    let smallest = units[units.len() - 1];
    let (size, name) =
        units.iter().copied().find(|(size, _)| number >= *size * 0.9995).unwrap_or(smallest);
    format!("{} {name}", significant_to(number / size, digits))
}

fn significant(number: f64) -> String {
    significant_to(number, DIGITS)
}

/// So many significant digits, without trailing zeros after the point.
fn significant_to(number: f64, digits: usize) -> String {
    let before_point = if number >= 99.95 {
        3
    } else if number >= 9.995 {
        2
    } else {
        1
    };
    let digits = digits - before_point;
    let text = format!("{number:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_whatever_the_size() {
        assert_eq!(seconds(7.46e-4), "746 us");
        assert_eq!(seconds(3.8471e-3), "3.85 ms");
        assert_eq!(seconds(0.0), "0 ns");
        assert_eq!(seconds(0.9999), "1 s");
        assert_eq!(bytes(134_217_728.0), "134 MB");
        assert_eq!(seconds_change(-3.1e-4), "-310 us");
        assert_eq!(bytes_change(0.0), "+0 B");
        assert_eq!(seconds_change(-1e-18), "+0 ns");
        assert_eq!(bytes(1e30), "1000000000000000000 TB");
    }

    #[test]
    fn different_quantities_are_written_differently() {
        assert_eq!(different_seconds([2e-3, 1e-3]), ["2 ms", "1 ms"]);
        assert_eq!(different_seconds([1.3431e-3, 1.34e-3]), ["1.343 ms", "1.34 ms"]);
        assert_eq!(different_bytes([80_000_000_001.0, 80e9]), ["80.000000001 GB", "80 GB"]);
        assert_eq!(different_bytes([1e9, 1e9]), ["1 GB", "1 GB"]);
    }

    #[test]
    fn what_is_needed_is_rounded_up() {
        assert_eq!(bytes(562_050_000.0), "562 MB");
        assert_eq!(bytes(rounded_up(562_050_000.0)), "563 MB");
        assert_eq!(bytes(rounded_up(562e6)), "562 MB");
    }
}
