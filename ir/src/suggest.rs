//! The nearest thing that would be right.

/// The candidate nearest to `name` by edit distance, if it is near enough to be meant.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let far = name.chars().count().div_ceil(3).max(1);
    let distances = candidates.into_iter().map(|candidate| {
        (strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase()), !candidate.starts_with(name), candidate)
    });
    distances
        .filter(|(distance, _, candidate)| *distance <= far && *distance < candidate.chars().count())
        .min()
        .map(|(.., candidate)| candidate)
}
