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
    use std::collections::BTreeSet;

    use shardwise_grammar::keywords::RESERVED;

    use super::{all, find};
    use crate::functions::CollectiveKind;

    #[test]
    fn the_page_on_reserved_names_lists_them_all() {
        let page = find(super::names::RESERVED).expect("a code").page;
        let list = page.split("Reserved are ").nth(1).expect("the list stands at the end");
        let listed: BTreeSet<&str> = list
            .split(|c: char| !c.is_alphabetic())
            .filter(|word| !word.is_empty() && *word != "and")
            .collect();
        let collectives = CollectiveKind::ALL.iter().map(CollectiveKind::name);
        let reserved: BTreeSet<&str> = collectives.chain(RESERVED).chain(["inf"]).collect();
        assert_eq!(listed, reserved);
    }

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
