//! The nearest number that divides another: what messages propose in the place of one that does
//! not.
//!
//! It is sought around what was written, and not among all divisors: sizes go up to 2^63, and a
//! message must not wait for their factors. Too far away nobody is helped by the nearest; then it
//! is a power of two.

/// How far away a divisor is sought.
const FAR: u64 = 1 << 16;

/// The divisor of `size` that is nearest to `wanted`, the smaller one of two; the largest power of
/// two up to there, if that is far.
pub fn nearest_divisor(size: u64, wanted: u64) -> u64 {
    let wanted = wanted.clamp(1, size.max(1));
    let around = (0..wanted.min(FAR))
        .flat_map(|distance| [wanted - distance, wanted.saturating_add(distance)]);
    let found = around.into_iter().find(|&number| size.is_multiple_of(number));
    found.unwrap_or_else(|| 1 << size.trailing_zeros().min(wanted.ilog2()))
}

#[cfg(test)]
mod tests {
    use super::nearest_divisor;

    #[test]
    fn the_nearest_is_found_on_both_sides() {
        assert_eq!(nearest_divisor(8192, 7), 8);
        assert_eq!(nearest_divisor(8192, 5), 4);
        assert_eq!(nearest_divisor(12, 5), 4);
        assert_eq!(nearest_divisor(7, 100), 7);
        assert_eq!(nearest_divisor(7, 3), 1);
    }

    #[test]
    fn what_is_far_is_not_sought() {
        assert_eq!(nearest_divisor(1 << 62, (1 << 61) + (1 << 60)), 1 << 61);
        assert_eq!(nearest_divisor((1 << 61) - 1, 1 << 40), 1);
    }
}
