//! Blocks as they are written: what opens them, what they hand on, what closes them, and the pipeline around their layers.

use super::{INDENT, Printer};
use crate::ids::{DimId, RepeatId};
use crate::pipeline::{Pipeline, Schedule};
use crate::program::Output;
use crate::sharding::Pin;

impl<'a> Printer<'a> {
    /// The line that opens a block, and what is declared in it.
    fn opening(self, id: RepeatId) -> Vec<String> {
        let repeat = &self.program.repeats[id];
        let count = if repeat.reversed.is_some() { " reversed".to_owned() } else { format!("={}", repeat.count) };
        let (outer, inner) = (self.frame_indent(id), self.body_indent(id));
        let frame = self.frame(id).map(|pipeline| self.pipeline(pipeline));
        let declared = self.declarations(Some(id)).into_iter().map(|line| format!("{inner}{line}"));
        frame.into_iter().chain([format!("{outer}repeat {}{count} {{", repeat.name)]).chain(declared).collect()
    }

    /// The pipeline that is printed around a block: what goes back through the layers of one needs no other.
    fn frame(self, id: RepeatId) -> Option<&'a Pipeline> {
        let repeat = &self.program.repeats[id];
        repeat.pipeline.as_ref().filter(|_| repeat.reversed.is_none())
    }

    fn frame_indent(self, id: RepeatId) -> &'static str {
        if self.frame(id).is_some() { INDENT } else { "" }
    }

    fn body_indent(self, id: RepeatId) -> String {
        format!("{}{INDENT}", self.frame_indent(id))
    }

    /// `pipeline Z, microbatches=8 of B, schedule=1f1b {`.
    fn pipeline(self, of: &Pipeline) -> String {
        let axis = &self.program.mesh.axes[of.axis].name;
        let schedule = if of.schedule == Schedule::default() { String::new() } else { format!(", schedule={}", of.schedule.name()) };
        let chunks = if of.chunks == 1 { String::new() } else { format!(", chunks={}", of.chunks) };
        format!("pipeline {axis}, microbatches={} of {}{schedule}{chunks} {{", of.microbatches, self.dim_name(of.batch))
    }

    /// What a block hands on, and the line that closes it. `pin` says where each value is then.
    fn closing(self, id: RepeatId, pin: impl Fn(&Output) -> Option<Pin>) -> Vec<String> {
        let inner = &self.body_indent(id);
        let hands_on = self.program.outputs.iter().filter_map(|output| {
            let enters = &self.program.values[output.hands_to?];
            let given = &self.program.values[output.value];
            let brackets = |dims: &[DimId]| pin(output).map_or(String::new(), |pin| self.pin(dims, &pin));
            (enters.repeat == Some(id))
                .then(|| format!("{inner}next {}{} = {}{}", enters.name, brackets(&enters.dims), given.name, brackets(&given.dims)))
        });
        let kept = self.program.repeats[id].kept.as_ref().map(|kept| {
            let names: Vec<&str> = kept.iter().map(|&value| self.program.values[value].name.as_str()).collect();
            format!("{inner}checkpoint {}", names.join(", ")).trim_end().to_owned()
        });
        let frame = self.frame(id).map(|_| "}".to_owned());
        hands_on.chain(kept).chain([format!("{}}}", self.frame_indent(id))]).chain(frame).collect()
    }

    /// Lines in their blocks: for each line its number in `within`, which says in which block it stands; none for what opens and closes blocks.
    pub(super) fn blocks(
        self,
        within: &[Option<RepeatId>],
        line: impl Fn(usize) -> String,
        pin: impl Fn(&Output) -> Option<Pin>,
    ) -> Vec<(String, Option<usize>)> {
        let mut lines = Vec::new();
        let mut open: Option<RepeatId> = None;
        for (number, &block) in within.iter().enumerate() {
            if block != open {
                lines.extend(open.into_iter().flat_map(|id| self.closing(id, &pin)).map(|line| (line, None)));
                lines.extend(block.into_iter().flat_map(|id| self.opening(id)).map(|line| (line, None)));
                open = block;
            }
            let indent = block.map_or_else(String::new, |id| self.body_indent(id));
            lines.push((format!("{indent}{}", line(number)), Some(number)));
        }
        lines.extend(open.into_iter().flat_map(|id| self.closing(id, &pin)).map(|line| (line, None)));
        lines
    }
}
