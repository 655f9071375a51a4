//! Retired words: names, comments, messages and pages use the terms of the literature, so that who
//! knows it can read the code. The glossary is in `compiler/README.md`.
//!
//! A text is read as a sequence of lower-case words, with identifiers of either case split into
//! theirs (`hand_on`, `HandOn` and "hand on" are the same), so that a phrase is found across
//! line ends too. A word that is standard in another sense is excused by the phrase around it.

use std::iter::once;

use shardwise_tests::{paths_below, read};

use super::{none, sources};

/// A retired word or phrase, and what to say instead.
const RETIRED: &[(&str, &str)] = &[
    ("anew", "again, or name what is computed a second time"),
    ("at hand", "current"),
    ("behind", "after"),
    ("bystanders", "live_through"),
    ("comes by", "runs, arrives"),
    ("dear", "costly"),
    ("dearer", "costlier"),
    ("dearest", "costliest"),
    ("drop the impossible", "prune_infeasible"),
    ("flip", "crossover"),
    ("flips", "crossovers"),
    ("for nothing", "at no cost"),
    ("giver", "producer"),
    ("givers", "producers"),
    ("gives it", "produces it"),
    ("goes back through", "iterates over in reverse"),
    ("hand on", "yield, send"),
    ("hand to", "send, pass to"),
    ("handed on", "yielded, sent"),
    ("handed to", "sent, passed to"),
    ("hands on", "yields, sends"),
    ("hands to", "sends, passes to"),
    ("held whole", "replicated, unsharded"),
    ("hold again", "greedy_retain"),
    ("home", "declared sharding"),
    ("homes", "declared shardings"),
    ("homewards", "towards the declared sharding"),
    ("in a row", "without overlap, serial"),
    ("keep whole", "replicate, leave unsharded"),
    ("keeps whole", "replicates, leaves unsharded"),
    ("kept whole", "replicated, unsharded"),
    ("kin", "name the kind: reductions, composites"),
    ("laid out so", "in this layout"),
    ("leave as", "declare, reshard here"),
    ("made good", "rescaled, corrected"),
    ("manieth", "strided"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("move prices", "subgradient_step"),
    ("operation gives", "result of an operation"),
    ("room", "capacity, memory"),
    ("said", "reported, printed"),
    ("settle", "reduce"),
    ("settled", "reduced"),
    ("settles", "reduces"),
    ("settling", "reducing"),
    ("so sharded", "in these shardings"),
    ("spoken for", "taken"),
    ("statistics", "running maximum and sum; split-KV softmax"),
    ("take it out", "remove it"),
    ("taken out", "removed; exported from a block"),
    ("takes out", "removes; exports from a block"),
    ("that it gives", "its result, that it produces"),
    ("told", "reported, printed"),
    ("turn up", "arrive"),
    ("turns up", "arrives"),
    ("under way", "in progress"),
    ("what it gives", "its result"),
    ("whoever", "name who: the caller, the author"),
    ("worth a sentence", "worth reporting"),
];

/// A phrase in which a retired word is standard, and the reason.
const EXCUSED: &[(&str, &str)] = &[
    ("rename flips", "a field of the stable JSON"),
    ("declared sharding home to owned", "a field of the stable JSON of `diff`"),
    ("or home for the", "the same field, where it is described"),
    ("commit home", "a variable of pre-commit"),
    ("no room", "the name of SW505, and of a kind of the stable JSON of `explain`"),
    ("declare or leave as", "a field of the stable JSON of `explain`"),
    ("output leave as", "the same field, where it is written"),
    ("backward behind microbatches", "the name of SW609"),
    ("for statistics", "the name of SW306"),
    ("heads or statistics", "a field of the stable JSON of `cost`"),
    ("heads statistics", "the same field, where it is checked"),
    ("pinned statistics", "the same field, where it is written"),
    ("true statistics", "the same field, where it is read"),
    ("is left behind", "of files that remain"),
];

/// The table itself, which has to name the words; and the record of earlier wordings.
const EXEMPT: &[&str] = &["tests/tests/suite/tidy/words.rs", "CHANGELOG.md"];

/// A word, and the line that it is on.
type Word = (String, usize);

/// Splits `readsOp`, `reads_op` and `reads op` into the same words.
fn words(text: &str) -> Vec<Word> {
    let letters = |line: &str| -> Vec<String> {
        let pieces = line.split(|c: char| !c.is_ascii_alphabetic());
        pieces.flat_map(split_camel_case).collect()
    };
    text.lines()
        .enumerate()
        .flat_map(|(number, line)| letters(line).into_iter().map(move |word| (word, number + 1)))
        .collect()
}

/// `AllReduce` is two words; `ICI` and `GSPMDs` are one.
fn split_camel_case(piece: &str) -> Vec<String> {
    let bytes = piece.as_bytes();
    let starts = (1..bytes.len())
        .filter(|&i| bytes[i].is_ascii_uppercase() && bytes[i - 1].is_ascii_lowercase());
    let ends: Vec<usize> = once(0).chain(starts).chain(once(bytes.len())).collect();
    ends.windows(2)
        .map(|ends| piece[ends[0]..ends[1]].to_ascii_lowercase())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Where a phrase begins in a sequence of words.
fn occurrences<'t>(text: &'t [Word], phrase: &'t [&str]) -> impl Iterator<Item = usize> + 't {
    (0..(text.len() + 1).saturating_sub(phrase.len())).filter(move |&start| {
        phrase.iter().zip(&text[start..]).all(|(word, (written, _))| written == word)
    })
}

/// Whether a phrase that excuses the word at `place` is written around it.
fn is_excused(text: &[Word], place: usize) -> bool {
    EXCUSED.iter().any(|(excuse, _)| {
        let phrase: Vec<&str> = excuse.split(' ').collect();
        (0..phrase.len().min(place + 1)).any(|before| {
            let around = &text[place - before..];
            occurrences(&around[..phrase.len().min(around.len())], &phrase).next() == Some(0)
        })
    })
}

/// The retired words of a text, one message each.
fn retired(path: &str, text: &str) -> Vec<String> {
    let text = words(text);
    let mut found = Vec::new();
    for (retired, instead) in RETIRED {
        let phrase: Vec<&str> = retired.split(' ').collect();
        for place in occurrences(&text, &phrase).filter(|&place| !is_excused(&text, place)) {
            found.push(format!("{path}:{}: `{retired}`; say: {instead}", text[place].1));
        }
    }
    found
}

#[test]
fn retired_words_are_not_used() {
    let folders = ["compiler", "tests", "fuzz"].map(|folder| paths_below(folder, ".md"));
    let pages = folders.into_iter().flatten().chain(["README.md".to_owned()]);
    let grammar = paths_below("grammar", ".pest");
    let others = pages.chain(grammar).map(|path| (path.clone(), read(&path)));
    let texts = sources().into_iter().chain(others);
    let texts = texts.filter(|(path, _)| !EXEMPT.contains(&path.as_str()));
    let found: Vec<String> = texts.flat_map(|(path, text)| retired(&path, &text)).collect();
    none(&found, "these words are retired");
}

#[test]
fn identifiers_and_wrapped_phrases_are_found() {
    for text in ["let hand_on = 1;", "struct HandOn;", "/// They hand\n    /// on."] {
        assert_eq!(retired("a.rs", text).len(), 1, "{text}");
    }
    assert!(retired("a.rs", "handy, onwards").is_empty());
}
