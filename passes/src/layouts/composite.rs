//! Composites such as softmax: one operation where their dimensions are unsharded, several where
//! these are sharded.
//!
//! Before, during planning:
//!
//! ```text
//! P[B, S_X] = softmax_S(L[B, S_X])
//! ```
//!
//! After:
//!
//! ```text
//! P.1[B] {max_X} = max_S(L[B, S_X])
//! P.1[B] = AllReduce_X(P.1[B] {max_X})
//! P.2[B, S_X] = L[B, S_X] - P.1[B]
//! P.3[B, S_X] = exp(P.2[B, S_X])
//! P.4[B] {U_X} = sum_S(P.3[B, S_X])
//! P.4[B] = AllReduce_X(P.4[B] {U_X})
//! P[B, S_X] = P.3[B, S_X] / P.4[B]
//! ```
//!
//! so that only maxima and sums are communicated. To the search both are layouts of one operation,
//! each with its price: one pass over the data where the dimensions are unsharded, every statement
//! and every reduction of the expansion where they are not. Plans are expanded when they are priced
//! and when they are final. The alternative, expanding all composites before the search, would make
//! every softmax five passes over memory, and remove the choice between the two from the search;
//! the statements of the expansion could then have different layouts, which gains nothing since
//! they work on the same elements.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::OnceLock;

use index_vec::IndexVec;
use indexmap::{IndexMap, IndexSet};
use shardwise_ir::dataflow::Dataflow;
use shardwise_ir::dtype::DType;
use shardwise_ir::functions::{Composite, Formula};
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::plan::{Collective, Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{
    CollectiveKind, Fusion, KernelPart, MapFn, MapForm, Op, OpKind, Operand, Program, Value,
};
use shardwise_ir::shape;
use shardwise_ir::sharding::{AxisList, Reduction, Sharding, Unreduced};

/// An operand of a statement of the expansion.
#[derive(Clone, Copy, PartialEq)]
enum Input {
    /// The operand of the composite.
    Operand,
    /// The result of the statement with this number.
    Piece(usize),
}

use Input::{Operand as Whole, Piece};

/// One statement of an expansion.
type Statement = (OpKind, Vec<Input>);

/// The statements of a composite, by its definition; the last gives its result.
fn statements(function: Composite, dims: &[DimId]) -> Vec<Statement> {
    let mut statements = Statements { dims, list: Vec::new() };
    let result = statements.input(&function.row().definition);
    debug_assert!(result.is_some(), "a definition is a formula over its operand alone");
    statements.list
}

/// The statements of a formula, common subexpressions once, each after those that it reads.
struct Statements<'a> {
    dims: &'a [DimId],
    list: Vec<Statement>,
}

impl Statements<'_> {
    /// The statement for a part of the formula; `None` for a number.
    fn input(&mut self, formula: &Formula) -> Option<Input> {
        let dims = self.dims.to_vec();
        let statement = match formula {
            Formula::Operand(_) => return Some(Whole),
            Formula::Negate(of) => (map(MapForm::Negate), vec![self.input(of)?]),
            Formula::Infix(how, left, Formula::Number(scalar)) => {
                (map(MapForm::InfixScalar(*how, (*scalar).to_owned())), vec![self.input(left)?])
            }
            Formula::Infix(how, left, right) => {
                (map(MapForm::Infix(*how)), vec![self.input(left)?, self.input(right)?])
            }
            Formula::Product(left, right) => {
                let inputs = vec![self.input(left)?, self.input(right)?];
                (OpKind::Einsum { contracted: Vec::new() }, inputs)
            }
            Formula::Call(function, arguments) => {
                let inputs = arguments.iter().map(|argument| self.input(argument));
                (map(MapForm::call(*function)), inputs.collect::<Option<Vec<_>>>()?)
            }
            Formula::Reduce(function, of) => {
                (OpKind::Reduce { function: *function, dims }, vec![self.input(of)?])
            }
            Formula::Broadcast(of) => (map(MapForm::Broadcast(dims)), vec![self.input(of)?]),
            Formula::Given
            | Formula::Result
            | Formula::Number(_)
            | Formula::Count
            | Formula::IfNumber(..) => return None,
        };
        let known = self.list.iter().position(|known| *known == statement);
        Some(Piece(known.unwrap_or_else(|| {
            self.list.push(statement);
            self.list.len() - 1
        })))
    }
}

fn map(form: MapForm) -> OpKind {
    OpKind::Map(MapFn::new(form))
}

/// FLOPs of a composite: so many per element of its operand, and so many per element of its reduced
/// values (maxima, sums).
pub(crate) fn flops(
    function: Composite,
    dims: &[DimId],
    elements: f64,
    reduced_elements: f64,
) -> f64 {
    let mut small: Vec<bool> = Vec::new();
    let mut total = 0.0;
    for (kind, parts) in statements(function, dims) {
        let is_reduced = parts.iter().all(|part| matches!(part, Piece(number) if small[*number]));
        let per_element = if let OpKind::Map(function) = &kind { function.flops() } else { 1.0 };
        total += per_element * if is_reduced { reduced_elements } else { elements };
        small.push(is_reduced || matches!(kind, OpKind::Reduce { .. }));
    }
    total
}

/// Whether an operation is expanded, its first operand in this sharding.
pub(crate) fn is_split(program: &Program, op: &Op, operand: Option<&Sharding>) -> bool {
    let (OpKind::Composite { dims, .. }, Some(operand)) = (&op.kind, operand) else {
        return false;
    };
    let positions = program.values[op.operands[0].value].dims.iter().zip(&operand.dims);
    positions.into_iter().any(|(dim, axes)| dims.contains(dim) && !axes.is_empty())
}

/// The plan of a composite alone, with its operand in this sharding: for its price.
pub(crate) fn alone(program: &Program, op: &Op, operand: &Sharding) -> ExpandedPlan<'static> {
    let only = |values: &[ValueId]| {
        values
            .iter()
            .map(|&value| Value { repeat: None, ..program.values[value].clone() })
            .collect()
    };
    let (x, y) = (ValueId::new(0), ValueId::new(1));
    let mut dims = program.dims.clone();
    dims.iter_mut_enumerated().for_each(|(dim, own)| own.size = program.size_in(op.repeat, dim));
    let mut bare = Program {
        mode: program.mode,
        hardware: program.hardware.clone(),
        fusion: program.fusion,
        collectives: program.collectives,
        products: program.products,
        mesh: program.mesh.clone(),
        dims,
        values: only(&[op.operands[0].value, op.result]),
        ops: IndexVec::new(),
        repeats: IndexVec::new(),
        backward: None,
        gradients_until: program.gradients_until,
        gathered_weights: program.gathered_weights,
        optimizer: None,
        outputs: Vec::new(),
        asserts: Vec::new(),
    };
    let op = Op {
        operands: vec![Operand { value: x, ..op.operands[0].clone() }],
        result: y,
        repeat: None,
        ..op.clone()
    };
    let steps = write_out(&mut bare, &op, operand, &mut IndexSet::new());
    ExpandedPlan::new(Cow::Owned(Plan { program: bare, steps }))
}

/// A plan in which every composite that is sharded along its dimensions is expanded, so that each
/// step runs on a device as it is; with its dataflow.
#[derive(Clone, Debug)]
pub struct ExpandedPlan<'p> {
    plan: Cow<'p, Plan>,
    /// Built when it is first asked for: the price of a plan alone does not need it.
    dataflow: OnceLock<Dataflow<usize>>,
}

impl<'p> ExpandedPlan<'p> {
    fn new(plan: Cow<'p, Plan>) -> Self {
        Self { plan, dataflow: OnceLock::new() }
    }

    /// The dataflow graph of the steps.
    pub fn dataflow(&self) -> &Dataflow<usize> {
        self.dataflow.get_or_init(|| Dataflow::of_plan(&self.plan))
    }

    /// The expansion of `plan`, and for each of its steps the number of the step of `plan` that it
    /// comes from; `None` where they are the same.
    pub(crate) fn with_origins(plan: &'p Plan) -> (Self, Option<Vec<usize>>) {
        match expand(plan) {
            Some((plan, origins)) => (Self::new(Cow::Owned(plan)), Some(origins)),
            None => (Self::new(Cow::Borrowed(plan)), None),
        }
    }
}

impl<'p> From<&'p Plan> for ExpandedPlan<'p> {
    fn from(plan: &'p Plan) -> Self {
        Self::with_origins(plan).0
    }
}

impl From<Plan> for ExpandedPlan<'static> {
    fn from(plan: Plan) -> Self {
        let expanded = expand(&plan).map(|(plan, _)| plan);
        Self::new(Cow::Owned(expanded.unwrap_or(plan)))
    }
}

impl Deref for ExpandedPlan<'_> {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

/// A plan with its sharded composites expanded, and for each of its steps the number of the step
/// that it comes from; `None` where there is nothing to expand.
fn expand(plan: &Plan) -> Option<(Plan, Vec<usize>)> {
    let split = |step: &Step| {
        let StepKind::Local(op) = step.kind else { return None };
        let operand = step.operands.first().map(|operand| &operand.sharding);
        is_split(&plan.program, &plan.program.ops[op], operand).then_some(op)
    };
    let operands: IndexMap<OpId, &Sharding> = plan
        .steps
        .iter()
        .filter_map(|step| Some((split(step)?, &step.operands[0].sharding)))
        .collect();
    if operands.is_empty() {
        return None;
    }
    let mut program = Program { ops: IndexVec::new(), ..plan.program.clone() };
    let mut taken: IndexSet<String> =
        program.values.iter().map(|value| value.name.clone()).collect();
    let mut place: IndexVec<OpId, Option<OpId>> = IndexVec::new();
    let mut expansions: IndexMap<OpId, Vec<Step>> = IndexMap::new();
    for (id, op) in plan.program.ops.iter_enumerated() {
        if let Some(operand) = operands.get(&id) {
            expansions.insert(id, write_out(&mut program, op, operand, &mut taken));
            place.push(None);
        } else {
            place.push(Some(program.ops.push(op.clone())));
        }
    }
    let mut steps = Vec::new();
    let mut from = Vec::new();
    for (number, step) in plan.steps.iter().enumerate() {
        let kind = match &step.kind {
            StepKind::Local(op) => match (place[*op], expansions.get(op)) {
                (Some(op), _) => StepKind::Local(op),
                (None, own) => {
                    steps.extend(own.into_iter().flatten().cloned());
                    from.resize(steps.len(), number);
                    continue;
                }
            },
            StepKind::Collective(collective, op) => {
                StepKind::Collective(collective.clone(), op.and_then(|op| place[op]))
            }
        };
        steps.push(Step { kind, ..step.clone() });
        from.push(number);
    }
    Some((Plan { program, steps }, from))
}

/// Adds the statements of a composite and their values to a program; returns the steps that run
/// them.
fn write_out(
    program: &mut Program,
    op: &Op,
    operand: &Sharding,
    taken: &mut IndexSet<String>,
) -> Vec<Step> {
    let OpKind::Composite { function, dims } = &op.kind else { return Vec::new() };
    let all = statements(*function, dims);
    let mut expansion = Expansion {
        program,
        op,
        operand,
        given: Vec::new(),
        reads_whole: false,
        steps: Vec::new(),
    };
    let last = all.len() - 1;
    for (number, (kind, parts)) in all.into_iter().enumerate() {
        let name =
            (number != last).then(|| fresh(&expansion.program.values[op.result].name, taken));
        expansion.statement(kind, &parts, name);
    }
    expansion.steps
}

/// `P.1`, `P.2`: the first unused name.
fn fresh(base: &str, taken: &mut IndexSet<String>) -> String {
    let mut number = 1;
    while taken.contains(&format!("{base}.{number}")) {
        number += 1;
    }
    let name = format!("{base}.{number}");
    taken.insert(name.clone());
    name
}

/// An expansion in progress.
struct Expansion<'p> {
    program: &'p mut Program,
    op: &'p Op,
    operand: &'p Sharding,
    /// The results of the statements so far.
    given: Vec<ValueId>,
    /// Whether one of them reads the operand.
    reads_whole: bool,
    steps: Vec<Step>,
}

impl Expansion<'_> {
    /// Adds a statement whose result is called `name`, or is the result of the composite.
    fn statement(&mut self, kind: OpKind, parts: &[Input], name: Option<String>) {
        let read: Vec<ValueId> = parts.iter().map(|part| self.value(*part)).collect();
        let result = match name {
            Some(name) => self.new_value(&kind, &read, name),
            None => self.op.result,
        };
        let operands =
            read.iter().map(|&value| Operand { value, pin: None, span: self.op.span }).collect();
        let result_pin = self.program.values[result].declared_sharding.clone();
        let pending: AxisList = match &kind {
            OpKind::Reduce { dims, .. } => dims.iter().flat_map(|dim| self.axes(*dim)).collect(),
            _ => AxisList::new(),
        };
        let combined = if let OpKind::Reduce { function, .. } = &kind {
            function.reduction()
        } else {
            Reduction::Sum
        };
        let kernel = self.kernel_part(parts, result);
        self.reads_whole |= parts.contains(&Whole);
        let id = self.program.ops.push(Op {
            kind,
            operands,
            result,
            result_pin,
            kernel,
            ..self.op.clone()
        });
        let read = read.into_iter().map(|value| self.reduced(value)).collect();
        let reduced = self.reduced(result);
        let repeat = self.op.repeat;
        if pending.is_empty() {
            self.steps.push(Step {
                kind: StepKind::Local(id),
                operands: read,
                result: reduced,
                repeat,
            });
        } else {
            let unreduced = Unreduced::new(combined, pending);
            let axes = unreduced.axes().to_vec();
            let partial = Materialization {
                value: result,
                sharding: Sharding { unreduced, ..reduced.sharding.clone() },
            };
            let reduction = Collective { kind: CollectiveKind::AllReduce, axes, into: Vec::new() };
            self.steps.push(Step {
                kind: StepKind::Local(id),
                operands: read,
                result: partial.clone(),
                repeat,
            });
            self.steps.push(Step {
                kind: StepKind::Collective(reduction, None),
                operands: vec![partial],
                result: reduced,
                repeat,
            });
        }
        self.given.push(result);
    }

    /// The place of a statement in the kernel of the composite: what statements yield to each other
    /// stays on the chip, where operations are fused at all, and the operand is read once.
    fn kernel_part(&self, parts: &[Input], result: ValueId) -> KernelPart {
        let own = self.op.kernel;
        if self.program.fusion == Fusion::None {
            return own;
        }
        let is_read_before =
            |position: usize| self.reads_whole || parts[..position].contains(&Whole);
        let is_inside = |position: usize, part: &Input| {
            *part != Whole || own.has_on_chip(0) || is_read_before(position)
        };
        let inside = parts.iter().enumerate().filter(|(position, part)| is_inside(*position, part));
        let read_before =
            parts.iter().enumerate().filter(|(_, part)| **part == Whole && own.has_read_before(0));
        KernelPart {
            operands_on_chip: inside.fold(0, |bits, (position, _)| bits | 1 << position),
            operands_read_before: read_before.fold(0, |bits, (position, _)| bits | 1 << position),
            result_on_chip: result != self.op.result || own.result_on_chip,
            operands_to_end: if result != self.op.result || own.reads_to_end(0) {
                u64::MAX
            } else {
                0
            },
            is_launched_elsewhere: own.is_launched_elsewhere || !self.given.is_empty(),
            ..own
        }
    }

    fn value(&self, part: Input) -> ValueId {
        match part {
            Whole => self.op.operands[0].value,
            Piece(number) => self.given[number],
        }
    }

    fn new_value(&mut self, kind: &OpKind, operands: &[ValueId], name: String) -> ValueId {
        let dims: Vec<&[DimId]> =
            operands.iter().map(|&value| self.program.values[value].dims.as_slice()).collect();
        let dtypes: Vec<DType> =
            operands.iter().map(|&value| self.program.values[value].dtype).collect();
        let (dims, dtype) = (shape::infer_shape(kind, &dims), shape::dtype(kind, &dtypes));
        let (span, repeat) = (self.op.span, self.op.repeat);
        self.program.values.push(Value { repeat, ..Value::result(name, dims, dtype, span) })
    }

    /// The axes that shard the operand along a dimension.
    fn axes(&self, dim: DimId) -> AxisList {
        let position = self.program.values[self.op.operands[0].value]
            .dims
            .iter()
            .position(|&other| other == dim);
        position.map(|position| self.operand.dims[position].clone()).unwrap_or_default()
    }

    /// A value sharded as the operand is, with nothing pending.
    fn reduced(&self, value: ValueId) -> Materialization {
        let dims = self.program.values[value].dims.iter().map(|&dim| self.axes(dim)).collect();
        Materialization { value, sharding: Sharding { dims, unreduced: Unreduced::default() } }
    }
}
