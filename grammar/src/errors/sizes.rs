//! Names for sizes that stand where dimensions must: one for each size in a file.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// The names that are given, in this order.
const NAMES: [&str; 12] = ["N", "M", "K", "L", "J", "I", "P", "Q", "R", "S", "T", "V"];

/// The axes after a size, `64` and `_X`; a `_` between digits belongs to the size.
pub(super) fn size_and_axes(text: &str) -> (&str, &str) {
    let is_between = |at: usize| text[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    let mut places = text.match_indices('_').map(|(at, _)| at);
    text.split_at(places.find(|&at| !is_between(at)).unwrap_or(text.len()))
}

/// Which of the equal sizes between one pair of brackets a size is: the first is 0.
fn turn<'e>(before: impl Iterator<Item = &'e str>, size: &str) -> usize {
    before.filter(|entry| size_and_axes(entry.trim()).0 == size).count()
}

/// The names of the sizes of a file, which are found when one is asked for.
pub(crate) struct Sizes<'s> {
    source: &'s str,
    names: OnceCell<BTreeMap<(String, usize), &'static str>>,
}

impl<'s> Sizes<'s> {
    pub(crate) fn of(source: &'s str) -> Self {
        Self { source, names: OnceCell::new() }
    }

    /// The name of a size; `before` is the text of its statement up to it.
    pub(super) fn name(&self, before: &str, size: &str) -> &'static str {
        let entries = before.rsplit('[').next().unwrap_or_default().split(',');
        let names = self.names.get_or_init(|| self.found());
        let key = (size.to_owned(), turn(entries, size));
        names.get(&key).unwrap_or(&NAMES[NAMES.len() - 1])
    }

    /// A name for each size in brackets, and for each turn; not that of a declared dimension.
    fn found(&self) -> BTreeMap<(String, usize), &'static str> {
        let taken: BTreeSet<&str> = self.source.lines().flat_map(declared).collect();
        let mut free = NAMES.into_iter().filter(|name| !taken.contains(name));
        let mut names = BTreeMap::new();
        let lists = self.source.lines().flat_map(|line| code_of(line).split('[').skip(1));
        for list in lists {
            let entries = list.split(']').next().unwrap_or_default().split(',');
            for (place, entry) in entries.clone().enumerate() {
                let (size, _) = size_and_axes(entry.trim());
                let is_size = size.starts_with(|c: char| c.is_ascii_digit());
                let key = (size.to_owned(), turn(entries.clone().take(place), size));
                if !is_size || names.contains_key(&key) {
                    continue;
                }
                let Some(name) = free.next() else { return names };
                names.insert(key, name);
            }
        }
        names
    }
}

/// A line without its comment.
fn code_of(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

/// The names that a line `dim B=64, D=256` declares.
fn declared(line: &str) -> impl Iterator<Item = &str> {
    let list = code_of(line).trim().strip_prefix("dim ").unwrap_or_default();
    list.split(',').filter_map(|dim| Some(dim.split_once('=')?.0.trim()))
}
