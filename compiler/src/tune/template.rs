//! Candidates as programs: the text of a program with another mesh, number of microbatches,
//! recomputation, pipeline or dtypes. Statements that stay keep their text and comments.
//!
//! Text, and not tables of a resolved program, since a candidate is then planned, printed and
//! checked like what a person writes; reading it takes a millisecond.

mod batch;
mod choices;
mod edits;
mod machine;

use shardwise_grammar::ast::{
    Backward, File, Pipeline, StateOver, Statement, Subscript, TensorDecl,
};
use shardwise_grammar::print;
use shardwise_grammar::span::{Name, Span, Spanned};
use shardwise_ir::Diag;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::hardware::Hardware;
use shardwise_passes::weights_of_products;

use batch::Grows;
use edits::{NOWHERE, applied, number, unpin};

use super::axis_words::{segments, words_in};
use super::candidate::{Candidate, Recompute, Staging};
use super::dtypes::Dtypes;
use super::machine::{Machine, Shape};
use super::stage_layers::fewer_first;
use super::{Refused, Request};
use crate::diagnostics::Findings;
use crate::display::units::counted;
use crate::driver::check;
use crate::options::Options;

/// A program to be written with other meshes.
pub(super) struct Template<'s> {
    pub(super) name: &'s str,
    source: &'s str,
    options: &'s Options,
    file: File,
    free: bool,
    /// The axes that the program's brackets name, once what is free is released.
    pub(super) named_axes: Vec<String>,
    /// The dimension of the batch.
    batch: Option<String>,
    /// Where several batches are asked for, and it is a product: its factor that grows.
    grows: Option<Grows>,
    /// The layers that stages divide, where there may be stages.
    pub(super) layer_count: Option<u64>,
    /// The weights whose dtypes are to be chosen.
    weights: Vec<String>,
}

impl<'s> Template<'s> {
    /// Reads a program; an error where its syntax is wrong, or where it is a plan already.
    pub(super) fn new(
        name: &'s str,
        source: &'s str,
        request: &Request,
        options: &'s Options,
    ) -> Result<Self, Refused> {
        let (file, diags) = shardwise_grammar::parse(source);
        if !diags.is_empty() {
            return Err(Refused::Program(Findings::new(diags, name, source)));
        }
        if file.statements.iter().any(|statement| statement.node == Statement::Plan) {
            return Err(Refused::Options(format!(
                "`{name}` is a plan, in which nothing is left to choose; give the program that it \
                    was made from"
            )));
        }
        let mut template = Self {
            name,
            source,
            options,
            file,
            free: request.free,
            named_axes: Vec::new(),
            batch: None,
            grows: None,
            layer_count: None,
            weights: Vec::new(),
        };
        template.named_axes = template.axes_in_brackets();
        template.batch = template.batch_dimension();
        if !request.batches.is_empty() {
            template.grows = template.growing_factor();
        }
        if request.stages.iter().any(|&stages| stages > 1) && template.can_be_staged() {
            template.layer_count = template.counted_layers();
        }
        if request.dtypes.iter().any(|&dtypes| dtypes != Dtypes::Written) {
            template.weights = template.multiplied_weights();
        }
        Ok(template)
    }

    /// The hardware of all candidates.
    pub(super) fn hardware(&self) -> Result<Hardware, Refused> {
        self.program().map(|program| program.hardware.clone()).map_err(Refused::Program)
    }

    /// Bytes of a device, where there is a limit.
    pub(super) fn capacity_bytes(&self) -> Result<Option<f64>, Refused> {
        let own = self.hardware()?.hbm_bytes;
        Ok(self.options.memory.or(own).filter(|bytes| bytes.is_finite()))
    }

    /// The program on one device, or as it is written where one device cannot run it, such as a
    /// pipeline from both ends. Errors are those of the text that the user has.
    pub(super) fn program(&self) -> Result<Analyzed, Findings> {
        let alone = Candidate::alone(&self.named_axes, Recompute::AsWritten);
        if let Some(program) = check(self.name, &self.text(&alone), self.options).program {
            return Ok(program);
        }
        let written = check(self.name, self.source, self.options);
        written.program.ok_or(written.findings)
    }

    /// The layers that stages divide, of all blocks.
    fn counted_layers(&self) -> Option<u64> {
        let program = self.program().ok()?;
        let blocks = program.repeats.iter().filter(|block| block.has_outermost_layers());
        Some(blocks.map(|block| block.count).sum())
    }

    /// The layers that stages divide, if they are all alike and have no layers in them.
    pub(super) fn layers_alike(&self) -> Option<u64> {
        let program = self.program().ok()?;
        let forward = program.repeats.iter().filter(|block| block.reversed.is_none());
        self.layer_count.filter(|_| forward.count() == 1)
    }

    /// The parameters of layers that products multiply.
    fn multiplied_weights(&self) -> Vec<String> {
        let Ok(program) = self.program() else { return Vec::new() };
        let weights = weights_of_products(&program).into_iter();
        weights.map(|weight| program.values[weight].name.clone()).collect()
    }

    /// Whether there are weights whose dtypes can be chosen.
    pub(super) fn has_weights(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Whether the program derives gradients.
    pub(super) fn has_gradients(&self) -> bool {
        self.backward().is_some()
    }

    /// The first statement, for findings about all of the program.
    pub(super) fn start(&self) -> Span {
        self.file.statements.first().map_or_else(Span::default, |statement| statement.span)
    }

    /// A finding about the program.
    pub(super) fn findings(&self, diag: Diag) -> Findings {
        Findings::new(vec![diag], self.name, self.source)
    }

    fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.file.statements.iter().map(|statement| &statement.node)
    }

    /// The candidates on these shapes.
    pub(super) fn candidates(&self, shapes: &[Shape], request: &Request) -> Vec<Candidate> {
        let mut all = Vec::new();
        let others = pairs(&request.batches(), &self.recomputations(request));
        for shape in shapes.iter().filter(|shape| shape.stages == 1 || self.can_be_staged()) {
            for staging in Staging::on(shape, request) {
                for ((batch, recompute), dtypes) in pairs(&others, &request.dtypes) {
                    for microbatches in self.microbatches(shape, staging, request) {
                        let one = Candidate {
                            shape: shape.clone(),
                            microbatches,
                            recompute,
                            staging,
                            batch,
                            dtypes,
                        };
                        let layers = self.layer_count.filter(|_| request.fewer_first);
                        all.extend(one.with_fewer_first(layers));
                        all.push(one);
                    }
                }
            }
        }
        all
    }

    /// Which option leaves no candidates on these shapes of a machine.
    pub(super) fn emptied_by(
        &self,
        request: &Request,
        machine: &Machine,
        shapes: &[Shape],
    ) -> String {
        let listed =
            |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("|");
        let stages = listed(&request.stages);
        if !self.can_be_staged() {
            return format!(
                "--stages {stages} asks for a pipeline, and this program cannot be one: it needs \
                    gradients, and nothing between its `repeat`s of layers; leave --stages out"
            );
        }
        let staged = |shape: &Shape| Some((shape.stages, Staging::on(shape, request)[0]?));
        if let Some((stages, staging)) = shapes.iter().find_map(staged) {
            let fewest = (1..2 * stages).find(|&count| staging.takes(count, stages));
            let fewest = fewest.unwrap_or(2 * stages);
            return format!(
                "{stages} stages with {} cannot run with --microbatches {}; write \
                    --microbatches {fewest}, or a multiple of it",
                staging.in_words(),
                listed(&request.microbatches)
            );
        }
        let possible = machine.possible_stages();
        let chips = counted(request.chips, "chip");
        if request.stages.iter().any(|stages| possible.contains(stages)) {
            return format!(
                "no mesh of {chips} has {stages} stages with so few --axes; write more --axes"
            );
        }
        format!(
            "no mesh of {chips} has {stages} stages, which divide its slowest network; write \
                --stages '{}'",
            listed(&possible)
        )
    }

    fn backward(&self) -> Option<&Backward> {
        self.statements().find_map(|statement| match statement {
            Statement::Backward(backward) => Some(backward),
            _ => None,
        })
    }

    pub(super) fn has_pipeline(&self) -> bool {
        !self.free && self.statements().any(|of| matches!(of, Statement::Pipeline(_)))
    }

    /// Whether the layers can be stages: in one run, and gradients that no option splits already.
    pub(in crate::tune) fn can_be_staged(&self) -> bool {
        let is_split = self.backward().is_none_or(|of| of.microbatches.is_some() && !self.free);
        !self.has_pipeline() && !is_split && self.run_of_layers().is_some() && self.batch.is_some()
    }

    /// The first statement and the end of all blocks of layers, where nothing is between them.
    fn run_of_layers(&self) -> Option<(Span, Span)> {
        let blocks: Vec<(Span, Span)> = self.layers().collect();
        let (begin, end) = (blocks.first()?.0, blocks.last()?.1);
        let is_of = |(first, last): &(Span, Span), span: Span| {
            first.start <= span.start && span.end <= last.end
        };
        let mut inside =
            self.file.statements.iter().filter(|other| is_of(&(begin, end), other.span));
        let is_run = inside.all(|other| blocks.iter().any(|block| is_of(block, other.span)));
        is_run.then_some((begin, end))
    }

    /// The outermost blocks of layers: their first statement and their end.
    fn layers(&self) -> impl Iterator<Item = (Span, Span)> {
        let is_layers = |of: &Statement| matches!(of, Statement::Repeat(of) if of.count.is_some());
        self.blocks(is_layers)
    }

    /// The pipelines of the program, and what is beside their layers, if they are to be released.
    fn released_pipelines(&self) -> impl Iterator<Item = (Span, Span)> {
        let free = self.free;
        let pipelines = self.blocks(move |of| free && matches!(of, Statement::Pipeline(_)));
        pipelines.chain(self.blocks(move |of| free && matches!(of, Statement::Stage(_))))
    }

    /// The blocks of a kind that are in no other of it: their first statement and their end.
    fn blocks(&self, is_one: impl Fn(&Statement) -> bool) -> impl Iterator<Item = (Span, Span)> {
        let mut open: Vec<(Span, bool)> = Vec::new();
        let mut found = Vec::new();
        for statement in &self.file.statements {
            match &statement.node {
                of if of.opens_block() => open.push((statement.span, is_one(of))),
                Statement::Close => {
                    let begun = open.pop();
                    let is_outermost = open.iter().all(|(_, is_one)| !is_one);
                    found.extend(
                        begun
                            .filter(|(_, is_one)| *is_one && is_outermost)
                            .map(|(begin, _)| (begin, statement.span)),
                    );
                }
                _ => {}
            }
        }
        found.into_iter()
    }

    /// The axes that brackets and options name, in the order of the mesh.
    fn axes_in_brackets(&self) -> Vec<String> {
        let declared = self.statements().filter_map(|statement| match statement {
            Statement::Mesh(axes) => Some(axes.iter().map(|axis| axis.name.node.clone())),
            _ => None,
        });
        let declared: Vec<String> = declared.flatten().collect();
        let mut words = Vec::new();
        let is_released = |of: &&Statement| self.free && matches!(of, Statement::Pipeline(_));
        for statement in self.statements().filter(|statement| !is_released(statement)) {
            words_in(&self.released(statement), &mut words);
        }
        let is_named = |axis: &&String| {
            words.iter().any(|word| segments(word, &declared).contains(&axis.as_str()))
        };
        declared.iter().filter(is_named).cloned().collect()
    }

    /// The text of a candidate.
    pub(super) fn text(&self, candidate: &Candidate) -> String {
        let mut edits: Vec<(Span, String)> = Vec::new();
        self.machine(candidate, &mut edits);
        for statement in &self.file.statements {
            if let Some(text) = self.edited(&statement.node, candidate) {
                edits.push((statement.span, text));
            }
        }
        edits.extend(
            self.released_pipelines()
                .flat_map(|(begin, end)| [begin, end])
                .map(|span| (span, String::new())),
        );
        let before = |span: Span| Span::new(span.start, span.start);
        let after = |span: Span| Span::new(span.end, span.end);
        if let Some(statement) = candidate.recompute.statement() {
            edits.extend(self.layers().map(|(_, end)| (before(end), format!("{statement}\n"))));
        }
        if let (Some(staging), Some((begin, end))) = (candidate.staging, self.run_of_layers()) {
            edits.push((before(begin), self.pipeline(candidate, staging) + "\n"));
            edits.push((after(end), "\n}".to_owned()));
        }
        let text = applied(self.source, edits);
        shardwise_grammar::format(&text).unwrap_or(text)
    }

    /// The statement as this candidate has it, where that differs.
    fn edited(&self, statement: &Statement, candidate: &Candidate) -> Option<String> {
        let edited = match statement {
            Statement::Hardware(_) | Statement::Mesh(_) => return None,
            Statement::Checkpoint { .. } if candidate.recompute != Recompute::AsWritten => {
                return Some(String::new());
            }
            Statement::Backward(of) => Statement::Backward(self.split(of.clone(), candidate)),
            Statement::Dim(_) | Statement::Repeat(_) => self.sized(statement, candidate.batch),
            other => self.converted(self.released(other), candidate.dtypes),
        };
        (edited != *statement).then(|| print::statement(&edited, self.source))
    }

    /// The statement with its weights in the dtype of the candidate; in training they stay.
    fn converted(&self, mut statement: Statement, dtypes: Dtypes) -> Statement {
        let dtype = dtypes.of_weights().filter(|_| !self.has_gradients());
        if let (Some(dtype), Statement::Declare(_, tensors)) = (dtype, &mut statement) {
            for tensor in tensors.iter_mut().filter(|of| self.weights.contains(&of.name.node)) {
                tensor.dtype = Some(Spanned::new(dtype.name().to_owned(), NOWHERE));
            }
        }
        statement
    }

    /// The statement with the sizes that the candidate and options give instead.
    fn sized(&self, statement: &Statement, batch: Option<u64>) -> Statement {
        let given = |name: &Name| {
            let own = batch.and_then(|batch| self.size_for_batch(&name.node, batch));
            let dim = self.options.dims.iter().find(|dim| dim.name == name.node);
            own.or(dim.map(|dim| dim.size)).map(number)
        };
        let mut sized = statement.clone();
        match &mut sized {
            Statement::Dim(dims) => {
                for dim in dims {
                    dim.size = given(&dim.name).unwrap_or_else(|| dim.size.clone());
                }
            }
            Statement::Repeat(of) if of.count.is_some() => {
                of.count = given(&of.name).or_else(|| of.count.clone());
            }
            _ => {}
        }
        sized
    }

    fn split(&self, mut of: Backward, candidate: &Candidate) -> Backward {
        if self.free {
            (of.microbatches, of.of) = (None, None);
        }
        let count = candidate.microbatches.filter(|&count| count > 1);
        if let Some(count) = count.filter(|_| candidate.shape.stages == 1) {
            of.microbatches = Some(number(count));
            let batch = self.batch.as_ref();
            of.of = of.of.or_else(|| batch.map(|name| Spanned::new(name.clone(), NOWHERE)));
        }
        of
    }

    /// `pipeline P, microbatches=8 of B, schedule=1f1b {`.
    fn pipeline(&self, candidate: &Candidate, staging: Staging) -> String {
        let word = |text: &str| Spanned::new(text.to_owned(), NOWHERE);
        let mut options = vec![(word("schedule"), word(staging.schedule.name()))];
        let chunks = staging.chunks.to_string();
        options.extend(staging.names_chunks().then(|| (word("chunks"), word(&chunks))));
        let layers = self.layers_of_stages(candidate, staging);
        options.extend(layers.map(|list| (word("layers"), word(&format!("[{list}]")))));
        let of = Pipeline {
            axis: word(&candidate.shape.axes[0].name),
            microbatches: candidate.microbatches.map(number),
            batch: self.batch.as_deref().map(word),
            options,
            is_reversed: false,
        };
        print::statement(&Statement::Pipeline(of), self.source)
    }

    /// `7, 7, 8`: the layers of each stage, where they are not spread evenly.
    fn layers_of_stages(&self, candidate: &Candidate, staging: Staging) -> Option<String> {
        let microbatches = candidate.microbatches?;
        let stages = candidate.shape.stages;
        let list = fewer_first(self.layer_count?, stages, microbatches, staging.longest?)?;
        Some(list.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
    }

    /// The statement with its brackets open where they name no axis.
    fn released(&self, statement: &Statement) -> Statement {
        let mut released = statement.clone();
        match &mut released {
            Statement::Declare(_, tensors) | Statement::Carry(tensors) => {
                for tensor in tensors {
                    self.open(tensor);
                }
            }
            Statement::Define(of) | Statement::Enter(of) | Statement::Next(of) => {
                self.open(&mut of.target);
                of.others.iter_mut().for_each(|tensor| self.open(tensor));
                if self.free {
                    unpin(&mut of.value);
                }
            }
            Statement::Optimizer(of) if self.free || of.over.is_none() => {
                of.over = Some(StateOver::Open);
            }
            _ => {}
        }
        released
    }

    fn open(&self, tensor: &mut TensorDecl) {
        let Some(layout) = &mut tensor.layout else { return };
        let is_pinned = layout.dims.iter().any(|dim| !dim.subscript.axes().is_empty());
        if self.free || !is_pinned && layout.unreduced.is_empty() {
            layout.dims.iter_mut().for_each(|dim| dim.subscript = Subscript::Open);
            layout.unreduced.clear();
        }
    }
}

pub(super) fn pairs<A: Copy, B: Copy>(left: &[A], right: &[B]) -> Vec<(A, B)> {
    left.iter().flat_map(|&a| right.iter().map(move |&b| (a, b))).collect()
}

/// The dimensions of declared values.
fn dims(tensors: &[TensorDecl]) -> impl Iterator<Item = &str> {
    let layouts = tensors.iter().filter_map(|tensor| tensor.layout.as_ref());
    layouts.flat_map(|layout| layout.dims.iter().map(|dim| dim.name.node.as_str()))
}
