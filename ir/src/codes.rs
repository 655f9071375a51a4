//! Every diagnostic code, in one place: a code is never reused, and each has a page that
//! `explain CODE` prints.

pub mod budget;
pub mod gradient;
pub mod mesh;
pub mod names;
pub mod optimizer;
pub mod pipeline;
pub mod repeat;
pub mod sharding;
pub mod tool;

pub use shardwise_grammar::codes::{self as syntax, Code};

/// All codes in order.
pub fn all() -> impl Iterator<Item = &'static Code> {
    [
        syntax::CODES,
        names::CODES,
        sharding::CODES,
        mesh::CODES,
        budget::CODES,
        gradient::CODES,
        optimizer::CODES,
        repeat::CODES,
        pipeline::CODES,
        tool::CODES,
    ]
    .into_iter()
    .flatten()
}

/// The code called `code`, in any case.
pub fn find(code: &str) -> Option<&'static Code> {
    all().find(|known| known.code.eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use super::{all, find};

    #[test]
    fn codes_are_unique_and_have_pages() {
        let codes: Vec<&str> = all().map(|code| code.code).collect();
        let mut unique = codes.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), codes.len(), "{codes:?}");
        for code in all() {
            assert!(code.summary().len() > 10, "{}", code.code);
            assert!(code.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", code.name);
        }
        assert_eq!(find("sw001").map(|code| code.name), Some("unreadable-statement"));
        assert_eq!(find("SW999"), None);
    }
}
