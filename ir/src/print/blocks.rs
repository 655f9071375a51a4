//! Blocks as text: what opens them, what closes them, and lines indented between.
//!
//! Lines say in which block they stand and nothing opens or closes one, so that statements of programs, steps of plans, and whatever else is printed a line
//! each all go through the same walk.

use super::Printer;
use crate::ids::{DimId, RepeatId};
use crate::program::{Blocks, Cut, Output};
use crate::sharding::Pin;

const INDENT: &str = "  ";

impl Printer<'_> {
    /// The line that opens a block, and what is declared in it.
    fn opening(self, id: RepeatId) -> Vec<String> {
        let repeat = &self.program.repeats[id];
        if let Some(Cut { whole, part }) = repeat.cut {
            return vec![format!("microbatches {}={}*{} {{", self.dim_name(whole), self.dim_name(part), repeat.count)];
        }
        let count = if repeat.reversed.is_some() { " reversed".to_owned() } else { format!("={}", repeat.count) };
        let declared = self.declarations(Some(id)).into_iter().map(|line| format!("{INDENT}{line}"));
        [format!("repeat {}{count} {{", repeat.name)].into_iter().chain(declared).collect()
    }

    /// What a block hands on, and the line that closes it. `pin` says where each value is then.
    fn closing(self, id: RepeatId, pin: impl Fn(&Output) -> Option<Pin>) -> Vec<String> {
        let hands_on = self.program.outputs.iter().filter_map(|output| {
            let enters = &self.program.values[output.hands_to?];
            let given = &self.program.values[output.value];
            let brackets = |dims: &[DimId]| pin(output).map_or(String::new(), |pin| self.pin(dims, &pin));
            (enters.repeat == Some(id))
                .then(|| format!("{INDENT}next {}{} = {}{}", enters.name, brackets(&enters.dims), given.name, brackets(&given.dims)))
        });
        let kept = self.program.repeats[id].kept.as_ref().map(|kept| {
            let names: Vec<&str> = kept.iter().map(|&value| self.program.values[value].name.as_str()).collect();
            format!("{INDENT}checkpoint {}", names.join(", ")).trim_end().to_owned()
        });
        hands_on.chain(kept).chain(["}".to_owned()]).collect()
    }

    /// Lines in their blocks: for each line its number in `within`, which says in which block it stands; none for what opens and closes blocks.
    pub(super) fn blocks(
        self,
        within: &[Option<RepeatId>],
        line: impl Fn(usize) -> String,
        pin: impl Fn(&Output) -> Option<Pin>,
    ) -> Vec<(String, Option<usize>)> {
        let mut lines = Vec::new();
        let mut open: Vec<RepeatId> = Vec::new();
        let mut go_to = |path: &[RepeatId], lines: &mut Vec<(String, Option<usize>)>| {
            while !path.starts_with(&open) {
                let closed = open.pop().map_or_else(Vec::new, |id| self.closing(id, &pin));
                lines.extend(closed.into_iter().map(|line| (INDENT.repeat(open.len()) + &line, None)));
            }
            for &id in &path[open.len()..] {
                lines.extend(self.opening(id).into_iter().map(|line| (INDENT.repeat(open.len()) + &line, None)));
                open.push(id);
            }
        };
        for (number, &block) in within.iter().enumerate() {
            let path = self.program.repeats.path(block);
            go_to(&path, &mut lines);
            lines.push((format!("{}{}", INDENT.repeat(path.len()), line(number)), Some(number)));
        }
        go_to(&[], &mut lines);
        lines
    }
}
