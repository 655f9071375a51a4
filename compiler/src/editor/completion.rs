//! What can be typed at a place.
//!
//! The place is found in the text before it and not in the tree, since the statement is unfinished:
//! the keyword that begins it, the innermost bracket that is open, and the characters before the
//! word. What can be typed there are names of the program and words of the reference.

mod place;

use shardwise_ir::Span;
use shardwise_ir::hardware::Hardware;

use super::names::{Kind, Names};
use super::reference::{self, CALLS, FUNCTIONS};
use crate::lint::all;
use place::Wanted;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A keyword or another word of the language.
    Word,
    /// A name.
    Name(Kind),
}

/// Something that can be typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The text.
    pub label: String,
    /// What it is.
    pub kind: ItemKind,
    /// How it is written, or declared.
    pub detail: String,
    /// What it means.
    pub meaning: String,
}

/// What can be typed at a place, instead of the part of it that is typed already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completions {
    /// The typed part.
    pub replaced: Span,
    /// What can stand there; editors filter it by the typed part.
    pub items: Vec<Item>,
}

/// What can be typed at a byte of `source`.
pub(super) fn completions(
    (source, offset): (&str, usize),
    names: &Names,
    known: &[Hardware],
) -> Completions {
    let (start, wanted) = place::wanted(source, offset, names);
    let mut items: Vec<Item> = Vec::new();
    for wanted in wanted {
        for item in of(wanted, names, known, source) {
            if items.iter().all(|other| other.label != item.label) {
                items.push(item);
            }
        }
    }
    Completions { replaced: Span::new(start, offset), items }
}

fn of(wanted: Wanted, names: &Names, known: &[Hardware], source: &str) -> Vec<Item> {
    match wanted {
        Wanted::Names(kind) => declared(kind, names, source),
        Wanted::Words(kind) => words(kind, ItemKind::Word),
        Wanted::Calls => {
            let functions = [FUNCTIONS, CALLS];
            let functions =
                functions.into_iter().flat_map(|it| words(it, ItemKind::Name(Kind::Function)));
            let collectives = words("Collectives", ItemKind::Name(Kind::Collective));
            functions.chain(collectives).collect()
        }
        Wanted::Dtypes => words("Element types", ItemKind::Name(Kind::Dtype)),
        Wanted::Hardware => hardware(known),
        Wanted::Lints => all()
            .iter()
            .map(|lint| item(lint.code, ItemKind::Name(Kind::Code), lint.name, lint.what))
            .collect(),
        Wanted::Exactly(words) => {
            words.iter().map(|word| item(word, ItemKind::Word, "", "")).collect()
        }
    }
}

fn item(label: &str, kind: ItemKind, detail: &str, meaning: &str) -> Item {
    let [label, detail, meaning] = [label, detail, meaning].map(str::to_owned);
    Item { label, kind, detail, meaning }
}

fn words(kind: &str, of: ItemKind) -> Vec<Item> {
    reference::of(kind).map(|word| item(word.name, of, &word.signature, &word.meaning)).collect()
}

/// What the program declares or defines, with the text that does.
fn declared(kind: Kind, names: &Names, source: &str) -> Vec<Item> {
    let detail = |span: Span| {
        let rest = &source[span.start..];
        let line = rest.split(['\n', '\r', '#']).next().unwrap_or_default();
        // Of a list of declarations, the one that it is about.
        let mut depth = 0_usize;
        let end = line.find(|c| {
            match c {
                '[' | '{' | '(' => depth += 1,
                ']' | '}' | ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        });
        line[..end.unwrap_or(line.len())].trim_end().to_owned()
    };
    let items = names.defined(kind);
    items.map(|it| item(&it.name, ItemKind::Name(kind), &detail(it.span), "")).collect()
}

fn hardware(known: &[Hardware]) -> Vec<Item> {
    let chip = |name: &str| item(name, ItemKind::Name(Kind::Hardware), "", "");
    let presets = Hardware::preset_names().map(chip);
    known.iter().map(|known| chip(&known.name)).chain(presets).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Document;

    const PROGRAM: &str = "hardware h100\nmesh X=4, Y=2\ndim B=8, D=4, F=4*D\n\
        input In[B_X, D], ids: int32[B]\nparam W[D, F_Y]\n";

    /// The labels where the mark stands, and what they replace.
    fn at(line: &str) -> (String, Vec<String>) {
        let (before, after) = line.split_once('|').expect("a mark");
        let text = format!("{PROGRAM}{before}{after}\n");
        let document = Document::new("a.shard", &text);
        let completions = document.completions(PROGRAM.len() + before.len(), &[]);
        let replaced = &text[completions.replaced.start..completions.replaced.end];
        (replaced.to_owned(), completions.items.into_iter().map(|item| item.label).collect())
    }

    fn labels(line: &str) -> Vec<String> {
        at(line).1
    }

    #[track_caller]
    fn has(line: &str, some: &[&str], none: &[&str]) {
        let labels = labels(line);
        let is_there = |word: &&str| labels.iter().any(|label| label == *word);
        assert!(some.iter().all(&is_there), "{line}: {labels:?}");
        assert!(!none.iter().any(is_there), "{line}: {labels:?}");
    }

    #[test]
    fn statements_begin_with_keywords() {
        has("|", &["hardware", "mesh", "dim", "repeat", "assert"], &["gelu", "ring"]);
        has("  allow SW301 ou|", &["output"], &["In"]);
        assert_eq!(at("  allow SW301 ou|").0, "ou");
    }

    #[test]
    fn operands_are_values_and_calls() {
        has("H = |", &["In", "W", "gelu", "softmax", "take", "AllGather"], &["B", "X", "mesh"]);
        has("H = gelu(I|)", &["In", "ids"], &["B"]);
        has("H = In *|", &["In", "D", "F"], &["X"]);
        has("H = In *D |", &["W"], &["X"]);
        has("backward from |", &["In", "W"], &["gelu"]);
    }

    #[test]
    fn brackets_have_dimensions_and_subscripts_axes() {
        assert_eq!(at("output H[|").1, ["B", "D", "F"]);
        assert_eq!(at("output H[B_X, |").1, ["B", "D", "F"]);
        assert_eq!(
            at("output H[B_|"),
            (String::new(), ["X", "Y", "?"].map(str::to_owned).to_vec())
        );
        assert_eq!(at("output H[B_{X,|}]").1, ["X", "Y"]);
        assert_eq!(at("H = sum_|").1, ["B", "D", "F"]);
        assert_eq!(at("H = sum_{B,|}(In)").1, ["B", "D", "F"]);
        has("H = AllGather_|", &["X", "Y"], &["gelu"]);
        assert_eq!(at("H[B] {U_|").1, ["X", "Y"]);
    }

    #[test]
    fn each_statement_has_its_own_words() {
        has("hardware tpu|", &["tpu-v5p", "h100"], &["X"]);
        assert_eq!(at("hardware tpu-v|").0, "tpu-v");
        has("hardware h100, |", &["rates=", "fusion=", "collectives=", "products="], &["h100"]);
        has("hardware h100, rates=|", &["measured", "peak"], &["h100"]);
        has("mesh Z=4 |", &["dcn", "ring", "over"], &["X"]);
        has("dim G=|", &["B", "D"], &["X"]);
        has("input A: |", &["bf16", "int32"], &["B"]);
        has("H = cast<|", &["bf16"], &["B"]);
        has("assert |", &["comm", "memory", "no", "W"], &["gelu"]);
        has("assert no |", &["AllGather"], &["comm"]);
        has("assert no AllGather over |", &["X", "dcn"], &["comm"]);
        has("allow |", &["SW301"], &["comm"]);
        has("pipeline |", &["X"], &["In"]);
        has("pipeline X, |", &["schedule=", "microbatches="], &["In"]);
        has("pipeline X, schedule=|", &["1f1b"], &["In"]);
        has("optimizer |", &["adam"], &["In"]);
        has("optimizer adam over |", &["X"], &["In"]);
        has("checkpoint |", &["In", "attention", "keep"], &["gelu"]);
        has("scan |", &["B", "D"], &["In"]);
    }

    #[test]
    fn comments_new_names_and_files_have_none() {
        for line in ["# in|", "input A|", "dim |", "repeat |", "hardware \"hw|"] {
            assert_eq!(labels(line), [""; 0], "{line}");
        }
    }
}
