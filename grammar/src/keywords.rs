//! The keywords that begin statements: those of the rules `keyword` and `role` of the grammar,
//! which a test compares with this list.

/// The words a statement can begin with.
pub const KEYWORDS: [&str; 23] = [
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
    "scan",
    "carry",
    "next",
    "backward",
    "phase",
    "pipeline",
    "stage",
    "optimizer",
    "checkpoint",
    "hold",
    "microbatches",
];

/// The keywords that no value can have as its name: a definition of it would be read as another
/// statement.
pub const RESERVED: [&str; 7] = ["plan", "hardware", "mesh", "dim", "output", "assert", "allow"];

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{KEYWORDS, RESERVED};
    use crate::ast::Statement;
    use crate::codes::{self, CODES};

    /// The quoted words of a rule of the grammar.
    fn words_of(rule: &str) -> impl Iterator<Item = &'static str> {
        let grammar = include_str!("shard.pest");
        let is_rule = |line: &&str| line.split(' ').next() == Some(rule);
        let line = grammar.lines().find(is_rule).expect("a rule of the grammar");
        let quoted = line.split('"').skip(1).step_by(2);
        quoted.filter(|word| word.chars().all(char::is_alphabetic))
    }

    #[test]
    fn the_keywords_are_those_of_the_grammar() {
        let rules: BTreeSet<&str> = words_of("keyword").chain(words_of("role")).collect();
        assert_eq!(rules, KEYWORDS.into_iter().collect());
    }

    #[test]
    fn reserved_are_the_keywords_that_no_definition_can_begin_with() {
        for keyword in KEYWORDS {
            let (file, errors) = crate::parse(&format!("{keyword}[I] = gelu(A)\n"));
            let first = file.statements.first().map(|statement| &statement.node);
            let names_it = errors.is_empty() && matches!(first, Some(Statement::Define(_)));
            assert_eq!(names_it, !RESERVED.contains(&keyword), "{keyword}: {first:?}");
        }
    }

    #[test]
    fn the_page_of_unreadable_statements_lists_every_keyword() {
        let code = CODES.iter().find(|code| code.code == codes::UNREADABLE).expect("a code");
        for keyword in KEYWORDS {
            assert!(code.page.contains(&format!("`{keyword}`")), "{keyword}");
        }
    }
}
