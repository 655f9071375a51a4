//! Resolves names to ids, once: the syntax tree becomes a [`Program`], or every error that can be
//! found becomes a diagnostic.
//!
//! A statement with an error still defines its name ("poisoned"), so that one mistake gives one
//! error.

mod asserts;
mod attention;
mod checkpoint;
mod chip;
mod collective;
mod convolution;
mod define;
mod expression;
mod gradient;
mod habits;
mod hold;
mod layout;
mod links;
mod machine;
mod methods;
mod microbatches;
mod next;
mod opaque;
mod optimizer;
mod overrides;
mod parts;
mod pipeline;
mod plan;
mod repeat;
mod route;
mod scan;
mod size;
mod slice;
mod split;
mod structure;
mod taken;
mod unknown;
pub mod vocabulary;
mod wording;

use crate::codes::names;
use index_vec::IndexVec;
use indexmap::{IndexMap, IndexSet};
use shardwise_grammar::ast::{self, Role, Statement, Until, Weights};
use shardwise_grammar::span::{Name, Span};

use crate::collectives::Collectives;
use crate::dtype::DType;
use crate::filled::Filled;
use crate::hardware::Hardware;
use crate::ids::{DimId, OpId, RepeatId, ValueId};
use crate::mesh::Mesh;
use crate::optimizer::Optimizer;
use crate::products::Products;
use crate::program::{
    Assert, Backward, Dim, Fusion, Mode, Op, Output, Phase, Program, Repeat, Value,
};
use crate::sharding::Sharding;
use crate::{Diag, Severity, renumber, sparse, verify};

pub use overrides::{AxisSize, DimSize, HardwareFile, Overrides};

/// The limit of errors.
const MOST_ERRORS: usize = 100;

/// The limit of searches for a similar name.
const MOST_SEARCHES: usize = 10;

/// Resolves a file: the program if there is no error, and all errors.
pub fn resolve(file: &ast::File, overrides: &Overrides) -> (Option<Program>, Vec<Diag>) {
    let mut resolver = Resolver::new(file, overrides);
    resolver.machine(file, overrides);
    resolver.dims(file, overrides);
    resolver.unknown_overrides(file, overrides);
    for (place, statement) in file.statements.iter().enumerate() {
        match &statement.node {
            Statement::Repeat(of) => {
                resolver.open(of, statement.span, &file.statements[place + 1..]);
            }
            Statement::Scan(of) => {
                resolver.open_scan(of, statement.span, &file.statements[place + 1..]);
            }
            Statement::Microbatches(of) => resolver.open_microbatches(of, statement.span),
            Statement::Pipeline(of) => {
                resolver.open_pipeline(of, statement.span, &file.statements[place + 1..]);
            }
            Statement::Stage(of) => {
                resolver.open_stage(of, statement.span, &file.statements[place + 1..]);
            }
            other if resolver.between_blocks(other, statement.span) => {}
            other => resolver.statement(other, statement.span),
        }
        if resolver.diags.len() > MOST_ERRORS {
            break;
        }
    }
    resolver.report_defined_again();
    resolver.outputs(file);
    resolver.asserts(file);
    resolver.finish()
}

/// The tables while they grow.
struct Resolver<'a> {
    mode: Mode,
    hardware: Option<Hardware>,
    fusion: Fusion,
    collectives: Collectives,
    products: Products,
    mesh: Mesh,
    mesh_span: Option<Span>,
    /// Whether the mesh statement is wrong, so that its axes are not known.
    mesh_failed: bool,
    dims: IndexVec<DimId, Dim>,
    /// Sizes given by option: of dimensions, and of `repeat`.
    given_sizes: Vec<DimSize>,
    dim_names: IndexMap<String, DimId>,
    /// The names of the dimensions that the whole file declares.
    declared_dims: IndexSet<&'a str>,
    bad_dims: IndexSet<String>,
    /// Axes that are reported as unknown.
    bad_axes: IndexSet<String>,
    values: IndexVec<ValueId, Value>,
    value_names: IndexMap<String, ValueId>,
    poisoned: IndexSet<String>,
    defined_again: taken::DefinedAgain,
    ops: IndexVec<OpId, Op>,
    repeats: IndexVec<RepeatId, Repeat>,
    /// The blocks of layers that are open, the outermost first.
    blocks: Vec<repeat::Block>,
    /// The microbatches whose statements are being read.
    microbatches: Option<RepeatId>,
    /// The pipeline that is open, unless its statement is wrong; whether one is; and for each block
    /// that could not be opened, the number of open ones around it.
    frame: Option<pipeline::Frame>,
    is_framed: bool,
    wrong_blocks: Vec<usize>,
    /// Outside blocks, and in each open one: the meaning of names that earlier blocks carried.
    ends: Vec<repeat::Ends>,
    /// Values that were exported from blocks of a pipeline in case their names are read.
    exported_by_name: IndexSet<ValueId>,
    outputs: Vec<Output>,
    asserts: Vec<Assert>,
    /// Shardings in which each value is known to exist.
    known: IndexVec<ValueId, Vec<Sharding>>,
    /// Brackets of output declarations, which order the dimensions of results without brackets.
    output_layouts: IndexMap<&'a str, &'a ast::Layout>,
    /// Where each name is declared or defined for the first time, in the whole file.
    defined_at: IndexMap<&'a str, Span>,
    /// The gradients asked for so far.
    backward: Option<Backward>,
    /// The part of the step that is being written.
    phase: Option<(Phase, Span)>,
    /// How long gradients are kept, where it is written.
    gradients_until: Option<Until>,
    /// What happens to gathered weights, where it is written.
    gathered_weights: Option<Weights>,
    /// The updates asked for.
    optimizer: Option<Optimizer>,
    /// Whether gradients were asked for and cannot be derived, which may define any name.
    without_gradients: bool,
    /// The number of intermediate values named for the current statement.
    links: usize,
    /// The number of operations before the current statement.
    statement_start: usize,
    /// The operations of intermediate values, by the values that they read and their block.
    parts: IndexMap<links::Place, Vec<OpId>>,
    /// The number of searches for a similar name.
    searches: usize,
    diags: Vec<Diag>,
}

/// The brackets of output declarations, and where each name is declared or defined first.
fn read_ahead(file: &ast::File) -> (IndexMap<&str, &ast::Layout>, IndexMap<&str, Span>) {
    let mut output_layouts = IndexMap::new();
    let mut defined_at = IndexMap::new();
    for statement in &file.statements {
        match &statement.node {
            Statement::Declare(Role::Output, tensors) => {
                output_layouts.extend(tensors.iter().filter_map(|tensor| {
                    Some((tensor.name.node.as_str(), tensor.layout.as_ref()?))
                }));
            }
            Statement::Declare(_, tensors) => {
                for tensor in tensors {
                    defined_at.entry(tensor.name.node.as_str()).or_insert(tensor.name.span);
                }
            }
            Statement::Define(definition) | Statement::Enter(definition) => {
                for ast::TensorDecl { name, .. } in definition.targets() {
                    defined_at.entry(name.node.as_str()).or_insert(name.span);
                }
            }
            _ => {}
        }
    }
    (output_layouts, defined_at)
}

fn declared_dims(file: &ast::File) -> IndexSet<&str> {
    let dims = file.statements.iter().filter_map(|statement| match &statement.node {
        Statement::Dim(dims) => Some(dims),
        _ => None,
    });
    dims.flatten().map(|dim| dim.name.node.as_str()).collect()
}

impl<'a> Resolver<'a> {
    fn new(file: &'a ast::File, overrides: &Overrides) -> Self {
        let mode = plan::mode(file, overrides);
        let lost: IndexSet<String> = file.lost.names.iter().cloned().collect();
        let (output_layouts, defined_at) = read_ahead(file);
        Self {
            mode,
            hardware: None,
            fusion: Fusion::default(),
            collectives: Collectives::default(),
            products: Products::default(),
            mesh: Mesh::default(),
            mesh_span: None,
            mesh_failed: file.lost.mesh,
            dims: IndexVec::new(),
            given_sizes: overrides.dims.clone(),
            dim_names: IndexMap::new(),
            declared_dims: declared_dims(file),
            bad_dims: lost.clone(),
            bad_axes: IndexSet::new(),
            values: IndexVec::new(),
            value_names: IndexMap::new(),
            poisoned: lost,
            defined_again: taken::DefinedAgain::new(),
            ops: IndexVec::new(),
            repeats: IndexVec::new(),
            blocks: Vec::new(),
            microbatches: None,
            frame: None,
            is_framed: false,
            wrong_blocks: Vec::new(),
            ends: vec![repeat::Ends::new()],
            exported_by_name: IndexSet::new(),
            outputs: Vec::new(),
            asserts: Vec::new(),
            known: IndexVec::new(),
            output_layouts,
            defined_at,
            backward: None,
            phase: None,
            gradients_until: None,
            gathered_weights: None,
            optimizer: None,
            without_gradients: file.lost.backward,
            links: 0,
            statement_start: 0,
            parts: IndexMap::new(),
            searches: 0,
            diags: Vec::new(),
        }
    }

    fn error(&mut self, diag: Diag) {
        self.diags.push(diag);
    }

    fn statement(&mut self, statement: &Statement, span: Span) {
        match statement {
            Statement::Declare(role, tensors) if *role != Role::Output => {
                for tensor in tensors {
                    self.declare(*role, tensor);
                }
            }
            Statement::Define(definition) => {
                let first = self.ops.len();
                self.define(definition, span);
                self.assign_kernel(definition, first);
            }
            Statement::Enter(definition) => self.enter(definition, span),
            Statement::Next(definition) => self.next(definition, span),
            Statement::Carry(tensors) => self.carries(tensors),
            Statement::Close if self.close_pipeline() => {}
            Statement::Close => self.close(),
            Statement::Hold(tensors) => self.hold(tensors, span),
            Statement::Checkpoint { how, names } => self.checkpoint(how.as_ref(), names, span),
            Statement::Phase(phase, keeps) => self.begin_phase(*phase, *keeps, span),
            Statement::Backward(directive) => self.differentiate(directive, span),
            Statement::Optimizer(written) => self.optimize(written, span),
            _ => {}
        }
    }

    fn declare(&mut self, role: Role, tensor: &ast::TensorDecl) {
        let name = &tensor.name;
        let dtype = self.dtype(tensor.dtype.as_ref());
        if self.is_declared_in_scan(tensor) || !self.is_free(name) {
            return;
        }
        let Some(written) = &tensor.layout else {
            let keyword = shardwise_grammar::print::role_name(role);
            let message = format!("`{}` is declared without brackets", name.node);
            let diag =
                Diag::error(names::NEEDS_BRACKETS, message, name.span, "how is it laid out?");
            self.error(
                diag.help(format!("write its dimensions: `{keyword} {}[B, D_X]`", name.node)),
            );
            self.poisoned.insert(name.node.clone());
            return;
        };
        let resolved = self.layout(written);
        let (Some((dims, pin)), Some(dtype)) = (resolved, dtype) else {
            self.poisoned.insert(name.node.clone());
            return;
        };
        if pin.exact().is_none() && self.mode == Mode::Explicit {
            let message = format!(
                "`{}` leaves a dimension open, and in a plan nothing is left to choose",
                name.node
            );
            let diag =
                Diag::error(names::NEEDS_BRACKETS, message, written.span, "an open dimension");
            self.error(diag.help("write the sharding of every dimension"));
            self.poisoned.insert(name.node.clone());
            return;
        }
        let known = pin.exact().into_iter().collect();
        let value = Value {
            name: name.node.clone(),
            dims,
            dtype: dtype.unwrap_or(DType::Bf16),
            dtype_written: dtype.is_some(),
            role: Some(if role == Role::FrozenParam { Role::Param } else { role }),
            filled: Filled::WHOLE,
            stored_as: None,
            is_frozen: role == Role::FrozenParam,
            declared_sharding: Some(pin),
            repeat: self.block_of_layers(),
            span: tensor.span,
        };
        self.add_value(value, known);
    }

    fn add_value(&mut self, value: Value, known: Vec<Sharding>) -> ValueId {
        let name = value.name.clone();
        let id = self.values.push(value);
        self.known.push(known);
        self.value_names.insert(name, id);
        id
    }

    /// The value called `name`, or an error.
    fn value(&mut self, name: &Name) -> Option<ValueId> {
        if let Some(id) = self.meaning(name) {
            let value = self.seen(id, name)?;
            return self.read_in_scans(value, name.span);
        }
        if let Some(gradient) = self.gradient(name) {
            return Some(gradient);
        }
        if !self.poisoned.contains(&name.node) && !self.without_gradients {
            let diag = match self.defined_at.get(name.node.as_str()) {
                Some(&later) => wording::too_early(name, later),
                None => self.unknown_value(name),
            };
            self.error(diag);
            self.poisoned.insert(name.node.clone());
        }
        None
    }

    fn outputs(&mut self, file: &ast::File) {
        for statement in &file.statements {
            let tensors: Vec<&ast::TensorDecl> = match &statement.node {
                Statement::Declare(Role::Output, tensors) => tensors.iter().collect(),
                Statement::Define(definition) if definition.output => {
                    definition.targets().collect()
                }
                _ => continue,
            };
            for tensor in tensors {
                self.output(tensor);
            }
            if self.diags.len() > MOST_ERRORS {
                break;
            }
        }
    }

    fn output(&mut self, tensor: &ast::TensorDecl) {
        let Some(value) = self.anywhere(&tensor.name) else { return };
        if self.is_of_microbatches(value) {
            self.of_a_microbatch(value, &tensor.name);
            return;
        }
        let Some(written) = &tensor.layout else {
            return self.output_needs_brackets(value, &tensor.name);
        };
        let Some((dims, pin)) = self.layout(written) else { return };
        if self.same_dims(value, &dims, written.span)
            && self.same_dtype(value, tensor.dtype.as_ref())
        {
            self.outputs.push(Output { value, pin, yields_to: None, span: tensor.span });
        }
    }

    /// Whether a dtype written where a value is only resharded is the one that it has; reports it
    /// if not.
    fn same_dtype(&mut self, value: ValueId, written: Option<&Name>) -> bool {
        let Some(dtype) = self.dtype(written) else { return false };
        let value = &self.values[value];
        let (Some(name), Some(dtype)) = (written, dtype.filter(|&dtype| dtype != value.dtype))
        else {
            return true;
        };
        let message = format!("`{}` is {}, not {}", value.name, value.dtype.name(), dtype.name());
        let diag = Diag::error(names::DTYPES_DIFFER, message, name.span, "another dtype")
            .and(value.span, "defined here");
        let help = format!(
            "convert it in a statement of its own: `cast<{}>({})`",
            dtype.name(),
            value.name
        );
        self.error(diag.help(help));
        false
    }

    fn finish(mut self) -> (Option<Program>, Vec<Diag>) {
        let hardware = self.hardware.take();
        let failed = |diags: &[Diag]| diags.iter().any(|diag| diag.severity == Severity::Error);
        let mut program = hardware.map(|hardware| Program {
            mode: self.mode,
            hardware,
            fusion: self.fusion,
            collectives: self.collectives,
            products: self.products,
            mesh: self.mesh,
            dims: self.dims,
            values: self.values,
            ops: self.ops,
            repeats: self.repeats,
            backward: self.backward,
            gradients_until: self.gradients_until,
            gathered_weights: self.gathered_weights,
            optimizer: self.optimizer,
            outputs: self.outputs,
            asserts: self.asserts,
        });
        if let Some(program) = &mut program {
            repeat::drop_unread(program, &self.exported_by_name);
            renumber::by_appearance(program);
            sparse::mark(program);
            self.diags.extend(crate::order::faults(program));
            self.diags.extend(crate::checkpoint::faults(program));
            self.diags.extend(crate::host_memory::faults(program));
            if program.ops.iter().any(|op| op.phase == Phase::Backward) {
                program.mark_kept();
            }
        }
        // A plan without errors is verified by `verify::explicit`, once.
        if let Some(program) =
            program.as_ref().filter(|program| program.mode == Mode::Ordinary || failed(&self.diags))
        {
            self.diags.extend(verify::written(program));
        }
        self.diags.truncate(MOST_ERRORS);
        (program.filter(|_| !failed(&self.diags)), self.diags)
    }
}
