//! `pipeline Z, microbatches=8 { repeat L=40 { … } }`: the assignment of layers to stages, and the
//! dimension that the microbatches split.
//!
//! Around one `repeat` it adds an attribute to that block and no statement. The reverse of such
//! layers is on the same stages wherever it stands, and is not enclosed again. Around several
//! blocks it is a block itself ([`blocks`]).

mod blocks;

use crate::codes::pipeline as codes;
use shardwise_grammar::ast::{self, Role, SizeExpr, Statement};
use shardwise_grammar::span::{Name, Span, Spanned};

use super::Resolver;
use crate::ids::{AxisId, DimId, RepeatId, ValueId};
use crate::pipeline::{Pipeline, Schedule, Stages};
use crate::program::{BlockKind, MapForm};
use crate::suggest::nearest_divisor;
use crate::{Diag, counted};
use blocks::Contents;

/// The limit of stages times chunks.
const MOST_POSITIONS: u64 = 1 << 20;

/// `[7, 8, 8, 7]`.
fn listed(word: &str) -> Option<Vec<u64>> {
    let numbers = word.strip_prefix('[')?.strip_suffix(']')?.split(',');
    numbers.map(|number| number.trim().parse().ok()).collect()
}

/// What may follow the axis of a pipeline.
pub(super) const OPTIONS: [&str; 4] = ["microbatches", "schedule", "chunks", "layers"];

/// A pipeline that is open.
pub(super) struct Frame {
    axis: AxisId,
    microbatches: u64,
    /// The batch, if the program names it.
    batch: Option<DimId>,
    schedule: Schedule,
    chunks: u64,
    /// The layers of each chunk of each stage, where the program lists them.
    layers: Option<Spanned<Vec<u64>>>,
    /// The block in it, once there is one.
    holds: Option<RepeatId>,
    span: Span,
}

impl Resolver<'_> {
    /// Opens a pipeline; `rest` begins with its content.
    pub(super) fn open_pipeline(
        &mut self,
        of: &ast::Pipeline,
        span: Span,
        rest: &[Spanned<Statement>],
    ) {
        if self.is_framed || self.inside().is_some() {
            let diag = Diag::error(
                codes::FORM,
                "a pipeline stands inside another block",
                span,
                "opened here",
            );
            self.error(diag.help(
                "close the block first: a pipeline holds layers, and is not repeated itself",
            ));
            self.not_opened();
            return;
        }
        if of.is_reversed {
            return self.open_reversed(of, span, rest);
        }
        self.frame = self.frame_of(of, span);
        self.is_framed = true;
        match blocks::contents(rest) {
            Contents::Statements => {
                self.not_layers(rest.first().map_or(span, |statement| statement.span), span);
            }
            Contents::Blocks if self.frame.is_some() => self.open_whole(&of.axis, None, span, rest),
            _ => {}
        }
    }

    fn not_layers(&mut self, at: Span, pipeline: Span) {
        let diag = Diag::error(codes::FORM, "a pipeline holds no layers", at, "not a `repeat`");
        self.error(diag.and(pipeline, "the pipeline").help(
            "write the layers in it, `repeat L=40 { carry x … }`, and other statements outside",
        ));
        self.frame = None;
    }

    fn frame_of(&mut self, of: &ast::Pipeline, span: Span) -> Option<Frame> {
        let axis = self.axis(&of.axis)?;
        let Some(parts) = &of.microbatches else {
            let diag = Diag::error(
                codes::FORM,
                "a pipeline without microbatches",
                span,
                "into how many parts is the batch cut?",
            );
            self.error(diag.help(format!("write `pipeline {}, microbatches=8 {{`", of.axis.node)));
            return None;
        };
        let microbatches = self.size(parts)?;
        let batch = match &of.batch {
            Some(name) => Some(self.dim(name)?),
            None => None,
        };
        let mut frame = Frame {
            axis,
            microbatches,
            batch,
            schedule: Schedule::default(),
            chunks: 1,
            layers: None,
            holds: None,
            span,
        };
        for (number, (option, word)) in of.options.iter().enumerate() {
            let before = of.options[..number]
                .iter()
                .find(|(other, _)| other.node == option.node)
                .map(|(other, _)| other.span);
            if let Some(before) =
                before.or_else(|| (option.node == "microbatches").then_some(parts.span))
            {
                self.given_twice(option, word, before);
                return None;
            }
            self.option(&mut frame, option, word)?;
        }
        let written = of.options.iter().rfind(|(option, _)| option.node == "chunks");
        self.chunks_of_schedule(&mut frame, written.map(|(_, word)| word.span))?;
        self.rounds(&frame, parts)?;
        Some(frame)
    }

    /// Some schedules decide the number of chunks.
    fn chunks_of_schedule(&mut self, frame: &mut Frame, written: Option<Span>) -> Option<()> {
        let Some(needed) = frame.schedule.fixed_chunks() else { return Some(()) };
        let name = frame.schedule.name();
        if let Some(span) = written.filter(|_| frame.chunks != needed) {
            let needed = counted(needed, "chunk");
            let message = format!("`{name}` has {needed} a stage, not {}", frame.chunks);
            let diag = Diag::error(codes::FORM, message, span, "other chunks");
            self.error(diag.help("leave `chunks` out: the schedule decides it"));
            return None;
        }
        frame.chunks = needed;
        Some(())
    }

    fn option(&mut self, frame: &mut Frame, option: &Name, word: &Name) -> Option<()> {
        let number = word.node.parse::<u64>().ok().filter(|&number| (1..=1024).contains(&number));
        match (option.node.as_str(), Schedule::from_name(&word.node), number) {
            ("schedule", Some(schedule), _) => frame.schedule = schedule,
            ("chunks", _, Some(chunks)) => frame.chunks = chunks,
            ("layers", ..) if listed(&word.node).is_some() => {
                frame.layers = listed(&word.node).map(|list| Spanned::new(list, word.span));
            }
            _ => {
                let message = format!("a pipeline has no option `{}={}`", option.node, word.node);
                let diag =
                    Diag::error(codes::FORM, message, option.span.to(word.span), "not understood");
                let schedules = Schedule::ALL.map(Schedule::name).join("`, `");
                self.error(diag.help(format!(
                    "options are `chunks=2`, `layers=[7, 8, 8, 7]`, and `schedule=` one of \
                    `{schedules}`"
                )));
                return None;
            }
        }
        Some(())
    }

    fn given_twice(&mut self, option: &Name, word: &Name, before: Span) {
        let diag = Diag::error(
            codes::FORM,
            format!("`{}` is given twice", option.node),
            option.span.to(word.span),
            "given again",
        );
        self.error(diag.and(before, "given here").help("leave one of them"));
    }

    /// Whether a schedule can run so many microbatches on so many stages.
    fn rounds(&mut self, frame: &Frame, parts: &SizeExpr) -> Option<()> {
        let stages = self.mesh.axes[frame.axis].size;
        let (microbatches, name) = (frame.microbatches, frame.schedule.name());
        let all = counted(microbatches, "microbatch");
        let on_stages = counted(stages, "stage");
        let two_rounds = stages.saturating_mul(2);
        let of_microbatches = (parts.span, "so many microbatches".to_owned());
        let ((span, label), message, help) = match frame.schedule {
            Schedule::GPipe | Schedule::OneForwardOneBackward
                if frame.chunks > 1 && !microbatches.is_multiple_of(stages) =>
            {
                let be = if microbatches == 1 { "is" } else { "are" };
                let message = format!("{all} {be} not a multiple of {on_stages}");
                let help = format!("with `chunks={}`, write a multiple of {stages}", frame.chunks);
                (of_microbatches, message, help)
            }
            Schedule::DualPipe if !stages.is_multiple_of(2) => (
                (frame.span, on_stages.clone()),
                format!("`{name}` runs from both ends of {on_stages}"),
                "write an even number of stages, or `schedule=dualpipe-v`".to_owned(),
            ),
            Schedule::DualPipe if !microbatches.is_multiple_of(2) || microbatches < two_rounds => (
                of_microbatches,
                format!("`{name}` on {on_stages} cannot run {all}"),
                format!(
                    "microbatches enter at both ends, at each as many as stages: write an even \
                        number of them, from {two_rounds} on; `gpipe` and `1f1b` run any number"
                ),
            ),
            Schedule::DualPipeV if microbatches < two_rounds => (
                of_microbatches,
                format!("`{name}` on {on_stages} cannot run {all}"),
                format!(
                    "a stage runs two chunks, and needs as many microbatches as stages for each: \
                        write {two_rounds} of them or more; `gpipe` and `1f1b` run any number"
                ),
            ),
            _ => return Some(()),
        };
        let diag = Diag::error(codes::UNEVEN, message, span, label);
        self.error(diag.help(help));
        None
    }

    /// Opens a block with so many layers: it is the pipeline's, or reverses the block of one.
    pub(super) fn staged(&mut self, id: RepeatId) {
        if let Some(forward) = self.repeats[id].reversed {
            self.repeats[id].pipeline = self.repeats[forward].pipeline.clone();
            return;
        }
        let is_layers = self.repeats[id].kind == BlockKind::Layers;
        if !self.blocks.is_empty() || !is_layers {
            return;
        }
        let Some(frame) = self.frame.take() else { return };
        let (layers, count) = (self.repeats[id].name.clone(), self.repeats[id].count);
        let span = self.repeats[id].span;
        let fits = self.fit(&frame, (Some(&layers), count), span).is_some();
        self.frame = fits.then_some(Frame { holds: Some(id), ..frame });
    }

    /// Whether so many layers can be placed on the stages; reports it if not.
    fn fit(
        &mut self,
        frame: &Frame,
        (layers, count): (Option<&str>, u64),
        span: Span,
    ) -> Option<()> {
        let stages = self.mesh.axes[frame.axis].size;
        let positions = stages.saturating_mul(frame.chunks);
        let parts = if frame.chunks == 1 {
            counted(stages, "stage")
        } else {
            format!("{} of {} chunks", counted(stages, "stage"), frame.chunks)
        };
        if let Some(listed) = &frame.layers {
            return self.listed_layers(listed, &parts, positions, count);
        }
        if count >= positions && positions <= MOST_POSITIONS {
            return Some(());
        }
        let name = &self.mesh.axes[frame.axis].name;
        let layer = counted(count, "layer");
        let message = format!("{layer} cannot be spread over {parts}");
        let write = match layers {
            Some(layers) => format!("write `repeat {layers}={positions}`"),
            None => format!("write {positions} layers or more in all blocks together"),
        };
        let help =
            format!("every one has a layer at least: {write}, or give `{name}` another size");
        let diag = Diag::error(codes::UNEVEN, message, span, "these layers")
            .and(frame.span, format!("stages along `{name}`"));
        self.error(diag.help(help));
        None
    }

    /// Checks the layers that the program lists for each chunk of each stage.
    fn listed_layers(
        &mut self,
        listed: &Spanned<Vec<u64>>,
        parts: &str,
        places: u64,
        count: u64,
    ) -> Option<()> {
        let Spanned { node: list, span } = listed;
        let sum = list.iter().try_fold(0_u64, |sum, &next| sum.checked_add(next));
        let message = if list.len() as u64 != places {
            format!("{} numbers of layers are listed for {parts}", list.len())
        } else if list.contains(&0) {
            "a stage has no layers".to_owned()
        } else if sum != Some(count) {
            let sum = sum.map_or_else(|| "too many".to_owned(), |sum| sum.to_string());
            format!("{sum} layers are listed, and the block has {count}")
        } else {
            return Some(());
        };
        let diag = Diag::error(codes::UNEVEN, message, *span, "listed here");
        self.error(diag.help(format!(
            "list {places} numbers that add up to {count}, in the order in which a microbatch \
            passes them; or leave `layers` out"
        )));
        None
    }

    /// Closes the pipeline's block: the carried values determine the batch.
    pub(super) fn stage(&mut self, id: RepeatId) {
        if self.repeats[id].kind == BlockKind::Pipeline {
            self.is_framed = false;
            if let Some(frame) = self.frame.take() {
                self.stage_blocks(id, &frame);
            }
            return;
        }
        let Some(frame) = self.frame.take_if(|frame| frame.holds == Some(id)) else { return };
        let count = self.repeats[id].count;
        let batch = frame.batch.or_else(|| self.batch_of(&[id], &frame));
        self.repeats[id].pipeline = batch.and_then(|batch| self.pipeline_of(&frame, batch, count));
        self.frame = Some(frame);
    }

    /// A pipeline of so many layers that splits `batch`, if the microbatches divide it.
    fn pipeline_of(&mut self, frame: &Frame, batch: DimId, count: u64) -> Option<Pipeline> {
        let &Frame { axis, microbatches, schedule, chunks, span, .. } = frame;
        let (name, size) = (&self.dims[batch].name, self.dims[batch].size);
        if !size.is_multiple_of(microbatches) {
            let message = format!("{microbatches} microbatches do not divide `{name}` = {size}");
            let near = nearest_divisor(size, microbatches);
            let help = format!("write `microbatches={near}`, or give `{name}` another size");
            let diag = Diag::error(codes::BATCH, message, span, "cut here")
                .and(self.dims[batch].span, "this size");
            self.error(diag.help(help));
            return None;
        }
        let stages = self.mesh.axes[axis].size;
        let stages = match &frame.layers {
            Some(listed) => Stages::new(schedule, stages, listed.node.clone()),
            None => Stages::spread(schedule, stages, chunks, count),
        };
        Some(Pipeline { axis, microbatches, batch, schedule, chunks, stages, span })
    }

    /// The dimension that all carried values have and no param; an error if that is none or
    /// several.
    fn batch_of(&mut self, blocks: &[RepeatId], frame: &Frame) -> Option<DimId> {
        let carried: Vec<ValueId> = self
            .ops
            .iter()
            .filter(|op| op.is(&MapForm::LoopCarried))
            .filter(|op| op.repeat.is_some_and(|block| blocks.contains(&block)))
            .map(|op| op.result)
            .collect();
        let params: Vec<DimId> = self
            .values
            .iter()
            .filter(|value| value.role == Some(Role::Param))
            .flat_map(|value| value.dims.clone())
            .collect();
        let everywhere = |dim: &DimId| {
            carried.iter().all(|&value| self.values[value].dims.contains(dim))
                && !params.contains(dim)
        };
        let first =
            carried.first().map(|&value| self.values[value].dims.clone()).unwrap_or_default();
        let found: Vec<DimId> = first.into_iter().filter(everywhere).collect();
        if let [only] = found[..] {
            return Some(only);
        }
        let names: Vec<&str> = found.iter().map(|&dim| self.dims[dim].name.as_str()).collect();
        let message = match names.as_slice() {
            [] => "no dimension that all carried values have is free of params".to_owned(),
            names => format!("`{}` could each be the batch", names.join("`, `")),
        };
        let help = match names.first() {
            Some(name) => format!(
                "name the dimension that microbatches split: `microbatches={} of {name}`",
                frame.microbatches
            ),
            None => format!(
                "carry what has rows of the batch only, and leave these to it; or say which they \
                    are: `microbatches={} of B`",
                frame.microbatches
            ),
        };
        self.error(Diag::error(codes::BATCH, message, frame.span, "parts of what?").help(help));
        None
    }

    /// Notes a block that is wrong: its `}` closes nothing.
    pub(super) fn not_opened(&mut self) {
        self.wrong_blocks.push(self.blocks.len());
    }

    /// `}` after the pipeline's block, or a wrong one; whether it closed such.
    pub(super) fn close_pipeline(&mut self) -> bool {
        if self.wrong_blocks.pop_if(|around| *around == self.blocks.len()).is_some() {
            return true;
        }
        let closes = self.is_framed && self.inside().is_none();
        if closes {
            (self.is_framed, self.frame) = (false, None);
        }
        closes
    }
}
