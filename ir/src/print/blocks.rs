//! Prints blocks: the line that opens them, the values that they yield, the closing brace, and the
//! pipeline around their layers.
//!
//! Each line names its block, and no statement opens or closes one, so statements of programs and
//! steps of plans share one traversal.

use super::Printer;
use crate::blocks::{Checkpoint, NamedValues};
use crate::ids::{RepeatId, ValueId};
use crate::pipeline::{Pipeline, Schedule};
use crate::program::{BatchSplit, BlockKind, Blocks, Output, Phase, Repeat, Scan};
use crate::sharding::Pin;

const INDENT: &str = "  ";

/// Where a line stands.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) block: Option<RepeatId>,
    pub(super) phase: Phase,
}

impl<'a> Printer<'a> {
    /// What the blocks of the program are, without their braces: `repeat L=40`, `microbatches
    /// B=B'*8`. A reversed one is that of the block that it reverses.
    pub fn block_heads(self) -> Vec<String> {
        let repeats = self.program.repeats.iter_enumerated();
        let forward = repeats.filter(|(_, repeat)| repeat.reversed.is_none());
        let heads = forward.flat_map(|(id, _)| self.openings(id));
        heads.map(|line| line.trim().trim_end_matches(" {").to_owned()).collect()
    }

    /// The line that opens a block, and that of the pipeline around it.
    fn openings(self, id: RepeatId) -> Vec<String> {
        let repeat = &self.program.repeats[id];
        if let Some(BatchSplit { batch, microbatch }) = repeat.microbatches_of {
            return vec![format!(
                "microbatches {}={}*{} {{",
                self.dim_name(batch),
                self.dim_name(microbatch),
                repeat.count
            )];
        }
        let frame = self.frame(id).map(|pipeline| self.pipeline(id, pipeline));
        let has_head = repeat.kind != BlockKind::Pipeline || frame.is_none();
        let head = has_head.then(|| format!("{}{} {{", self.frame_indent(id), self.head(repeat)));
        frame.into_iter().chain(head).collect()
    }

    /// The lines that open a block, and its declarations.
    fn opening(self, id: RepeatId) -> Vec<String> {
        let repeat = &self.program.repeats[id];
        let openings = self.openings(id);
        if repeat.microbatches_of.is_some() {
            return openings;
        }
        let inner = self.body_indent(id);
        let declared = self.declarations(Some(id)).into_iter().map(|line| format!("{inner}{line}"));
        let held = repeat
            .kept_gathered
            .iter()
            .map(|held| format!("{inner}hold {}", self.materialization(held)));
        openings.into_iter().chain(declared).chain(held).collect()
    }

    /// `repeat L=40`, `scan T in C`, `scan T reversed`.
    fn head(self, of: &Repeat) -> String {
        match of.scan {
            None if of.kind == BlockKind::Stage => {
                format!("stage {}{}", of.name, if of.reversed.is_some() { " reversed" } else { "" })
            }
            Some(_) if of.reversed.is_some() => format!("scan {} reversed", of.name),
            Some(Scan { dim, chunk: Some(chunk) }) => {
                format!("scan {} in {}", self.dim_name(dim), self.dim_name(chunk))
            }
            Some(Scan { dim, chunk: None }) => format!("scan {}", self.dim_name(dim)),
            None if of.kind == BlockKind::Pipeline => format!("pipeline {} reversed", of.name),
            None if of.reversed.is_some() => format!("repeat {} reversed", of.name),
            None => format!("repeat {}={}", of.name, of.count),
        }
    }

    /// The pipeline that is printed around a block; none for a reversed block, and for one of
    /// several in a pipeline.
    fn frame(self, id: RepeatId) -> Option<&'a Pipeline> {
        let repeat = &self.program.repeats[id];
        let is_whole = self.program.whole_pipeline(Some(id)) == Some(id);
        repeat.pipeline.as_ref().filter(|_| repeat.reversed.is_none() && is_whole)
    }

    /// The pipeline around a block that has a line of its own inside.
    fn frame_around(self, id: RepeatId) -> Option<&'a Pipeline> {
        self.frame(id).filter(|_| self.program.repeats[id].kind != BlockKind::Pipeline)
    }

    fn frame_indent(self, id: RepeatId) -> &'static str {
        if self.frame_around(id).is_some() { INDENT } else { "" }
    }

    fn body_indent(self, id: RepeatId) -> String {
        format!("{}{INDENT}", self.frame_indent(id))
    }

    /// `pipeline Z, microbatches=8 of B, schedule=1f1b {`.
    fn pipeline(self, id: RepeatId, of: &Pipeline) -> String {
        let axis = &self.program.mesh.axes[of.axis].name;
        let schedule = if of.schedule == Schedule::default() {
            String::new()
        } else {
            format!(", schedule={}", of.schedule.name())
        };
        let is_chosen = of.chunks > 1 && of.schedule.fixed_chunks().is_none();
        let chunks = if is_chosen { format!(", chunks={}", of.chunks) } else { String::new() };
        let stages = self.program.layers_of_pipeline(id);
        let stages = stages.as_ref().unwrap_or(&of.stages);
        let counts: Vec<String> = stages.layers().iter().map(u64::to_string).collect();
        let layers = if stages.is_spread() {
            String::new()
        } else {
            format!(", layers=[{}]", counts.join(", "))
        };
        format!(
            "pipeline {axis}, microbatches={} of {}{schedule}{chunks}{layers} {{",
            of.microbatches,
            self.dim_name(of.batch)
        )
    }

    /// The values that a block yields, and the line that closes it, with their shardings by `pin`.
    fn closing(self, id: RepeatId, pin: impl Fn(&Output) -> Option<Pin>) -> Vec<String> {
        let inner = &self.body_indent(id);
        let yields = self.program.outputs.iter().filter_map(|output| {
            let in_block = self.program.values[output.value].repeat == Some(id);
            Some(format!(
                "{inner}{}",
                self.next(output, output.yields_to.filter(|_| in_block)?, pin(output).as_ref())
            ))
        });
        let Repeat { checkpoint, offload, .. } = &self.program.repeats[id];
        let written = checkpoint.as_ref().map(|checkpoint| self.checkpoint(checkpoint));
        let offload = offload.as_ref().map(|named| self.named_after("offload ", named));
        let kept = written.or_else(|| self.kept(id)).into_iter().chain(offload);
        let kept = kept.map(|line| format!("{inner}{line}"));
        let frame = self.frame_around(id).map(|_| "}".to_owned());
        yields.chain(kept).chain([format!("{}}}", self.frame_indent(id))]).chain(frame).collect()
    }

    /// `checkpoint h, q`, where gradients are derived already and keep these.
    fn kept(self, id: RepeatId) -> Option<String> {
        let ops = self.program.ops.iter().filter(|op| op.is_kept && op.repeat == Some(id));
        let names = ops.map(|op| self.program.values[op.result].name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then(|| format!("checkpoint {names}"))
    }

    /// `checkpoint h, q`, `checkpoint keep products`, `checkpoint only attention`.
    fn checkpoint(self, of: &Checkpoint) -> String {
        let how = match (of.recomputes_named, of.named.groups.is_empty()) {
            (true, _) => "only ",
            (false, false) => "keep ",
            (false, true) => "",
        };
        self.named_after(how, &of.named)
    }

    fn named_after(self, how: &str, of: &NamedValues) -> String {
        let groups = of.groups.iter().map(|group| group.name());
        let values = of.values.iter().map(|&value| self.program.values[value].name.as_str());
        let names: Vec<&str> = groups.chain(values).collect();
        format!("checkpoint {how}{}", names.join(", ")).trim_end().to_owned()
    }

    /// `next x.in[B] = x.1[B]`: the value that is yielded, and its name in the next layer.
    pub(super) fn next(self, output: &Output, then: ValueId, pin: Option<&Pin>) -> String {
        let side = |value: ValueId| {
            let value = &self.program.values[value];
            format!("{}{}", value.name, pin.map_or(String::new(), |pin| self.pin(&value.dims, pin)))
        };
        format!("next {} = {}", side(then), side(output.value))
    }

    /// Lines in their blocks: for each line its index in `places`, the list of blocks and parts of
    /// the step; `None` for lines that open or close blocks, or begin a part.
    pub(super) fn blocks(
        self,
        places: &[Place],
        line: impl Fn(usize) -> String,
        pin: impl Fn(&Output) -> Option<Pin>,
    ) -> Vec<(String, Option<usize>)> {
        let mut lines = Vec::new();
        let mut open: Vec<RepeatId> = Vec::new();
        let indent =
            |open: &[RepeatId]| open.iter().map(|&id| self.body_indent(id)).collect::<String>();
        let mut current = Phase::default();
        let mut go_to = |path: &[RepeatId], phase: Phase, lines: &mut Vec<_>| {
            let mut push =
                |open: &[RepeatId], line: String| lines.push((indent(open) + &line, None));
            while !path.starts_with(&open) {
                let closed = open.pop().map_or_else(Vec::new, |id| self.closing(id, &pin));
                for line in closed {
                    push(&open, line);
                }
            }
            if phase != std::mem::replace(&mut current, phase) {
                push(&open, self.phase(phase));
            }
            for &id in &path[open.len()..] {
                for line in self.opening(id) {
                    push(&open, line);
                }
                open.push(id);
            }
        };
        for (number, place) in places.iter().enumerate() {
            let path = self.program.repeats.path(place.block);
            go_to(&path, place.phase, &mut lines);
            lines.push((format!("{}{}", indent(&path), line(number)), Some(number)));
        }
        let last = places.last().map_or_else(Phase::default, |place| place.phase);
        go_to(&[], last, &mut lines);
        lines
    }
}
