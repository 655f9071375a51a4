//! Corrections that messages propose: the nearest known name, and the nearest number that divides.

use std::cmp::Reverse;

/// The candidate nearest to `name` by edit distance, if it is near enough to be meant; among equals
/// the one that begins alike, then the first in order of the alphabet.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    let far = length.div_ceil(3).max(1);
    let letters = Letters::of(&name);
    let near = candidates.into_iter().filter_map(|candidate| {
        let size = candidate.chars().count();
        if size.abs_diff(length) > far {
            return None;
        }
        let lower = candidate.to_lowercase();
        if letters.distance(&Letters::of(&lower)) > 2 * far {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&name, &lower);
        let alike = name.bytes().zip(lower.bytes()).take_while(|(a, b)| a == b).count();
        (distance <= far && distance < size.max(length)).then_some((
            distance,
            Reverse(alike),
            candidate,
        ))
    });
    near.min().map(|(.., candidate)| candidate)
}

/// The counts of each byte in a word: one edit changes few of the counts, so that most words are
/// rejected without comparing them.
struct Letters([u8; 128]);

impl Letters {
    fn of(word: &str) -> Self {
        let mut counts = [0_u8; 128];
        for byte in word.bytes().filter(u8::is_ascii) {
            counts[usize::from(byte)] = counts[usize::from(byte)].saturating_add(1);
        }
        Self(counts)
    }

    /// At most twice the number of edits between the words.
    fn distance(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(a, b)| usize::from(a.abs_diff(*b))).sum()
    }
}

/// The largest distance at which a divisor is searched. Sizes go up to 2^63, and a message must not
/// need their factors; a divisor further away would not help.
const FARTHEST_DIVISOR: u64 = 1 << 16;

/// The divisor of `size` nearest to `wanted`, the smaller of two; if none is near, the largest
/// power of two up to `wanted` that divides.
pub fn nearest_divisor(size: u64, wanted: u64) -> u64 {
    let wanted = wanted.clamp(1, size.max(1));
    let around = (0..wanted.min(FARTHEST_DIVISOR))
        .flat_map(|distance| [wanted - distance, wanted.saturating_add(distance)]);
    let found = around.into_iter().find(|&number| size.is_multiple_of(number));
    found.unwrap_or_else(|| 1 << size.trailing_zeros().min(wanted.ilog2()))
}

#[cfg(test)]
mod tests {
    use super::{nearest, nearest_divisor};

    #[test]
    fn the_nearest_name_is_the_one_with_the_fewest_edits() {
        assert_eq!(nearest("Tpm", ["Act", "Tmp", "Out"]), Some("Tmp"));
        assert_eq!(nearest("gelou", ["relu", "gelu"]), Some("gelu"));
        assert_eq!(nearest("in", ["In"]), Some("In"));
        assert_eq!(nearest("Bb", ["A", "B"]), Some("B"));
        assert_eq!(nearest("tpu-v5", ["tpu-v3", "tpu-v5p"]), Some("tpu-v5p"));
        assert_eq!(nearest("X", ["Y", "Z"]), None);
        assert_eq!(nearest("Table", ["Act", "Tmp", "Out"]), None);
    }

    #[test]
    fn the_nearest_divisor_is_found_on_both_sides() {
        assert_eq!(nearest_divisor(8192, 7), 8);
        assert_eq!(nearest_divisor(8192, 5), 4);
        assert_eq!(nearest_divisor(12, 5), 4);
        assert_eq!(nearest_divisor(7, 100), 7);
        assert_eq!(nearest_divisor(7, 3), 1);
    }

    #[test]
    fn far_divisors_are_not_sought() {
        assert_eq!(nearest_divisor(1 << 62, (1 << 61) + (1 << 60)), 1 << 61);
        assert_eq!(nearest_divisor((1 << 61) - 1, 1 << 40), 1);
    }
}
