//! A pipeline of several blocks: layers of different kinds one after another, and `stage` blocks
//! for what stands beside them, as an embedding and a head.
//!
//! ```text
//! pipeline Z, microbatches=64, schedule=1f1b {
//!   stage embedding { … }
//!   repeat Dense=3 { carry x … }
//!   repeat Sparse=58 { carry x … }
//!   stage head { … }
//! }
//! ```
//!
//! The layers of all `repeat`s are counted as one sequence and placed on the stages; each block
//! then has its own number of layers at each position, which may be none. A `stage` is no layer: it
//! is where the layer before it is, or at the first one. The pipeline itself is a block of one
//! layer around the others, so that what is between them (`x.end`) has the rows of a microbatch and
//! exists on one stage, without a rule of its own; gradients reverse it like any block in a block.
//!
//! Alternatives: to find out from what statements read on which stage they are needs no `stage`,
//! and would move a head to another stage when a line in it changes; statements directly in the
//! pipeline would need a rule for each analysis that asks for the block of a statement.

use shardwise_grammar::ast::{self, Statement};
use shardwise_grammar::span::{Name, Span, Spanned};

use super::super::Resolver;
use super::super::repeat::{Opening, export_form};
use super::Frame;
use crate::Diag;
use crate::codes::{pipeline as codes, repeat as blocks};
use crate::ids::RepeatId;
use crate::pipeline::{Pipeline, Run};
use crate::program::{BlockKind, Mode};

/// What a pipeline holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// No block.
    Statements,
    /// One `repeat` and nothing else.
    OneRepeat,
    /// Something else.
    Blocks,
}

/// What a pipeline holds whose statements are at the beginning of `rest`.
pub(super) fn contents(rest: &[Spanned<Statement>]) -> Contents {
    let (mut depth, mut outermost, mut has_blocks) = (0_usize, 0_usize, false);
    for Spanned { node: statement, .. } in rest {
        match statement {
            Statement::Close if depth == 0 => break,
            Statement::Close => depth -= 1,
            of => {
                outermost += usize::from(depth == 0);
                depth += usize::from(of.opens_block());
                has_blocks |= of.opens_block();
            }
        }
    }
    let begins = rest.first().map(|statement| &statement.node);
    match begins {
        Some(Statement::Repeat(of)) if of.count.is_some() && outermost <= 1 => Contents::OneRepeat,
        _ if !has_blocks => Contents::Statements,
        _ => Contents::Blocks,
    }
}

impl Resolver<'_> {
    /// `pipeline Z reversed {`.
    pub(super) fn open_reversed(
        &mut self,
        of: &ast::Pipeline,
        span: Span,
        rest: &[Spanned<Statement>],
    ) {
        let name = &of.axis;
        if let Some(forward) = self.forward_here(&name.node, false, BlockKind::Pipeline) {
            self.is_framed = true;
            return self.open_whole(name, Some(forward), span, rest);
        }
        let message = format!("no earlier `pipeline {}` of several blocks", name.node);
        let diag = Diag::error(blocks::NO_BLOCK, message, name.span, "nothing to reverse");
        self.error(diag.help(format!(
            "write `pipeline {}, microbatches=8 {{`; gradients of one `repeat` in a pipeline are a \
            `repeat … reversed` of their own",
            name.node
        )));
        self.not_opened();
    }

    /// Opens the block around the several of a pipeline.
    pub(super) fn open_whole(
        &mut self,
        name: &Name,
        reversed: Option<RepeatId>,
        span: Span,
        rest: &[Spanned<Statement>],
    ) {
        let kind = BlockKind::Pipeline;
        self.open_block(Opening { name, count: 1, reversed, scan: None, kind }, span, rest);
    }

    /// Whether statements are directly in a pipeline of several blocks.
    pub(super) fn is_between_blocks(&self) -> bool {
        let is_pipeline = |block: RepeatId| self.repeats[block].kind == BlockKind::Pipeline;
        self.block_of_layers().is_some_and(is_pipeline)
    }

    /// `stage head {`, `stage head reversed {`.
    pub(in crate::resolve) fn open_stage(
        &mut self,
        of: &ast::Stage,
        span: Span,
        rest: &[Spanned<Statement>],
    ) {
        let (name, kind) = (&of.name, BlockKind::Stage);
        if !self.is_between_blocks() {
            if self.wrong_blocks.is_empty() && !self.is_framed {
                let message = "a `stage` stands in no pipeline";
                let diag = Diag::error(codes::FORM, message, span, "on a stage of what?");
                self.error(diag.help(
                    "write it between the `{` and the `}` of a pipeline, beside its layers: \
                    `pipeline Z, microbatches=8 {`",
                ));
            }
            return self.not_opened();
        }
        let reversed = self.forward_here(&name.node, false, kind).filter(|_| of.is_reversed);
        if of.is_reversed && reversed.is_none() {
            let message = format!("no earlier `stage {}` to reverse", name.node);
            let diag = Diag::error(blocks::NO_BLOCK, message, name.span, "not written before");
            self.error(diag.help(format!("write `stage {} {{`", name.node)));
            return self.not_opened();
        }
        self.open_block(Opening { name, count: 1, reversed, scan: None, kind }, span, rest);
    }

    /// Reports a statement that is in a pipeline of several blocks, and in none of these.
    pub(in crate::resolve) fn between_blocks(&mut self, statement: &Statement, span: Span) -> bool {
        let whole = self.block_of_layers().filter(|_| self.is_between_blocks());
        let Some(whole) = whole.filter(|&whole| self.repeats[whole].reversed.is_none()) else {
            return false;
        };
        if self.mode == Mode::Explicit {
            return false;
        }
        let exports = |definition: &ast::Definition| match &definition.value.node {
            ast::ExprKind::Call(call) => export_form(&call.function.node).is_some(),
            _ => false,
        };
        match statement {
            Statement::Define(definition) if exports(definition) => return false,
            Statement::Close | Statement::Allow(_) | Statement::Assert(_) => return false,
            _ => {}
        }
        self.in_no_block(span, whole);
        true
    }

    /// A statement, or a scan, that is on no stage.
    fn in_no_block(&mut self, span: Span, whole: RepeatId) {
        let pipeline = self.repeats[whole].span;
        let diag = Diag::error(
            codes::FORM,
            "a statement in a pipeline is in none of its blocks",
            span,
            "on which stage?",
        );
        self.error(diag.and(pipeline, "the pipeline").help(
            "write `stage embedding { … }` around what the first stage does before its layers, \
            `stage head { … }` around what the last does after them, and other statements before \
            or after the pipeline",
        ));
    }

    /// Closes the pipeline's block: places the layers of all blocks in it on the stages.
    pub(super) fn stage_blocks(&mut self, whole: RepeatId, frame: &Frame) {
        let inside: Vec<RepeatId> = self
            .repeats
            .indices()
            .filter(|&block| self.repeats[block].within == Some(whole))
            .collect();
        let scan = inside.iter().map(|&block| &self.repeats[block]).find(|of| of.scan.is_some());
        if let Some(span) = scan.map(|of| of.span) {
            return self.in_no_block(span, whole);
        }
        let runs: Vec<Run> = inside.iter().map(|&block| self.run(block)).collect();
        let count = runs.iter().map(|run| match run {
            Run::Layers(count) => *count,
            Run::Beside => 0,
        });
        let count = count.fold(0, u64::saturating_add);
        if !runs.iter().any(|run| matches!(run, Run::Layers(_))) {
            return self.not_layers(self.repeats[whole].span, frame.span);
        }
        if self.fit(frame, (None, count), frame.span).is_none() {
            return;
        }
        let Some(batch) = frame.batch.or_else(|| self.batch_of(&inside, frame)) else {
            return;
        };
        let Some(all) = self.pipeline_of(frame, batch, count) else { return };
        let stages = self.mesh.axes[frame.axis].size;
        let own = all.stages.split(&runs);
        for (&block, stages) in inside.iter().zip(own) {
            self.repeats[block].pipeline = Some(Pipeline { stages, ..all.clone() });
        }
        let stages = all.stages.once(stages);
        self.repeats[whole].pipeline = Some(Pipeline { stages, ..all });
    }

    fn run(&self, block: RepeatId) -> Run {
        match self.repeats[block].kind {
            BlockKind::Stage => Run::Beside,
            _ => Run::Layers(self.repeats[block].count),
        }
    }
}
