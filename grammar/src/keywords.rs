//! The keywords that begin statements.

/// The words a statement can begin with.
pub(crate) const KEYWORDS: [&str; 21] = [
    "plan",
    "hardware",
    "mesh",
    "dim",
    "input",
    "param",
    "frozen",
    "state",
    "output",
    "assert",
    "allow",
    "repeat",
    "carry",
    "next",
    "backward",
    "phase",
    "pipeline",
    "optimizer",
    "checkpoint",
    "hold",
    "microbatches",
];

/// The keyword that `word` is a misspelling of, if one is near enough.
pub(crate) fn nearest_keyword(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    if word.chars().count() > 12 {
        return None;
    }
    let distance = |keyword: &&str| strsim::damerau_levenshtein(keyword, &word);
    let nearest = KEYWORDS.into_iter().min_by_key(distance)?;
    (distance(&nearest) <= nearest.len().div_ceil(4)).then_some(nearest)
}
