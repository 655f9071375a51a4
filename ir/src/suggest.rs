//! The nearest thing that would be right.

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

/// How often each byte stands in a word: one edit changes few of the counts, so that most words are
/// told apart without comparing them.
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

#[cfg(test)]
mod tests {
    use super::nearest;

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
}
