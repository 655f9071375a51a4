//! How a plan was found, carried along in its text.
//!
//! A plan planned again must be the same text, byte for byte, but nothing in an explicit program
//! says that a search proved it optimal. So the printed plan ends in a line
//! `# found: … [fingerprint]`, and planning an explicit program keeps that line if the fingerprint
//! is still that of its statements. A plan edited by hand loses the claim.

use std::hash::Hasher;

use rustc_hash::FxHasher;

const MARK: &str = "# found: ";

/// The claim with the fingerprint of the plan that it is about.
pub(crate) fn sign(claim: &str, plan: &str) -> String {
    format!("{claim} [{:016x}]", fingerprint(plan))
}

/// The claim that stands in `source`, if it is about `plan`.
pub(crate) fn read(source: &str, plan: &str) -> Option<String> {
    let claim = source.lines().rev().find_map(|line| line.strip_prefix(MARK))?.trim_end();
    claim.ends_with(&format!(" [{:016x}]", fingerprint(plan))).then(|| claim.to_owned())
}

fn fingerprint(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}
