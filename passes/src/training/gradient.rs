//! Reverse mode: replaces `backward` with the gradient statements.
//!
//! Before:
//!
//! ```text
//! input In[B, D], dOut[B, D]
//! param Win[D, F], Wout[F, D]
//! Tmp = In *D Win
//! Out = Tmp *F Wout
//! backward from Out given dOut
//! ```
//!
//! After:
//!
//! ```text
//! Tmp = In *D Win
//! Out = Tmp *F Wout
//! dWout = Tmp *B dOut
//! dTmp = dOut *D Wout
//! dWin = In *B dTmp
//! output dWin[D, F]
//! output dWout[F, D]
//! ```
//!
//! Statements are visited in reverse, their operands from the last to the first. A gradient is
//! derived if it is on a path from the start of `backward` to something *wanted*: a parameter, or a
//! value whose gradient the program names. The gradient of a parameter that the program does not
//! use is an output with the parameter's sharding. Contributions of several uses are summed as they
//! arise.
//!
//! Only values are derived, never their shardings: a partial gradient stays partial until the
//! planner reduces it, and the transpose of a collective is the collective that reshards the
//! gradient to the sharding of its operand (the gradient of a gathered value is scattered, that of
//! a scattered one gathered). So all materializations of a value share one gradient, as do an
//! operand and a result that differ only by a summand (`h + b`); it has the name of the one that is
//! wanted.

mod again;
mod blocks;
mod emit;
mod fault;
mod narrow;
mod offload;
mod rules;

use emit::{Emitter, Into, gradient_name};
use indexmap::IndexMap;
use rules::{GradientTerm, Path};
use shardwise_ir::Role;
use shardwise_ir::dataflow::{Analyzed, Dataflow, Direction};
use shardwise_ir::functions::Function;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::{Backward, MapFn, MapForm, Op, OpKind, Output, Program, Value};
use shardwise_ir::sharding::{DimPin, Pin, Unreduced};

use crate::training::microbatches::{self, Batch, MicrobatchFault};

pub use fault::GradientFault;

/// The program with its gradients derived, and split into microbatches where it asks for them; one
/// without `backward` unchanged.
pub(crate) fn expand(program: Program) -> Result<Program, Vec<GradientFault>> {
    let (program, cut) = of_whole_batch(program)?;
    let wrapped = |faults: Vec<MicrobatchFault>| {
        faults.into_iter().map(GradientFault::Microbatches).collect()
    };
    match cut {
        Some((batch, end)) => microbatches::cut(program, batch, end).map_err(wrapped),
        None => Ok(program),
    }
}

/// The same without microbatches: the reference that microbatches must agree with.
pub(crate) fn expand_whole(program: Program) -> Result<Program, Vec<GradientFault>> {
    of_whole_batch(program).map(|(program, _)| program)
}

/// A program of the complete batch, and the part to be split into microbatches: the operations
/// before one.
type Uncut = (Program, Option<(Batch, OpId)>);

/// The program with its gradients derived, and the part to be split.
fn of_whole_batch(mut program: Program) -> Result<Uncut, Vec<GradientFault>> {
    let Some(mut directive) = program.backward.take() else { return Ok((program, None)) };
    let mut program = Analyzed::from(program);
    let batch = microbatches::asked(&program, &directive)
        .map_err(|fault| vec![GradientFault::Microbatches(fault)])?;
    if let Some(batch) = batch {
        let mut with_sums = program.into_program();
        microbatches::without_means(&mut with_sums, &mut directive, batch.dim);
        program = with_sums.into();
    }
    let after = program.ops.len() - directive.at.index();
    let flow = Flow::new(&program, &directive);
    let mut faults = flow.faults(&program, &directive);
    let classes = Classes::new(&program, &directive, &flow);
    faults.extend(classes.taken_names(&program, &directive, &flow));
    if !faults.is_empty() {
        return Err(faults);
    }
    let derived = derive(program, &directive, &flow, &classes);
    let end = OpId::new(derived.ops.len() - after);
    Ok((derived, batch.map(|batch| (batch, end))))
}

/// The paths of gradients.
struct Flow {
    /// For each operation before `backward`, how the gradient of its result reaches each operand.
    paths: Vec<Vec<Path>>,
    /// Whether a value's gradient is wanted for itself.
    wanted: Vec<bool>,
    /// Whether a value's gradient is to be derived.
    live: Vec<bool>,
}

impl Flow {
    fn new(program: &Analyzed, directive: &Backward) -> Self {
        let ops = &program.ops.as_raw_slice()[..directive.at.index()];
        let paths: Vec<Vec<Path>> = ops
            .iter()
            .map(|op| {
                (0..op.operands.len()).map(|position| rules::path(program, op, position)).collect()
            })
            .collect();
        let mut wanted: Vec<bool> = program.values.iter().map(Value::is_trained).collect();
        directive.named.iter().for_each(|(of, _)| wanted[of.index()] = true);
        // Operations after `backward` have no path.
        let passes = |op: OpId, position: usize| {
            paths.get(op.index()).is_some_and(|paths| paths[position] != Path::Stopped)
        };
        let dataflow = program.dataflow();
        let of_wanted = program.values.indices().filter(|value| wanted[value.index()]);
        let leads = dataflow.reachable(of_wanted, Direction::Outgoing, passes);
        let reached = dataflow.reachable([directive.from], Direction::Incoming, passes);
        let live = leads.iter().zip(&reached).map(|(leads, reached)| *leads && *reached).collect();
        Self { paths, wanted, live }
    }

    fn is_live(&self, value: ValueId) -> bool {
        self.live[value.index()]
    }

    fn faults(&self, program: &Program, directive: &Backward) -> Vec<GradientFault> {
        let unreached = directive
            .named
            .iter()
            .filter(|(of, _)| !self.is_live(*of))
            .map(|(of, _)| GradientFault::Unreached(*of));
        let mut faults: Vec<GradientFault> = unreached.collect();
        if faults.is_empty()
            && !self.live.iter().zip(&self.wanted).any(|(live, wanted)| *live && *wanted)
        {
            faults.push(GradientFault::Nothing);
        }
        for (id, op, position) in self.uses(program) {
            if self.paths[id.index()][position] == Path::Unknown
                && self.is_live(op.operands[position].value)
            {
                faults.push(GradientFault::NoDerivative(id, position));
            }
        }
        faults
    }

    /// The operands through which gradients pass, the last first.
    fn uses<'p>(
        &'p self,
        program: &'p Program,
    ) -> impl Iterator<Item = (OpId, &'p Op, usize)> + 'p {
        let ops = program
            .ops
            .iter_enumerated()
            .take(self.paths.len())
            .rev()
            .filter(|(_, op)| !op.is_reshard() && self.is_live(op.result));
        ops.flat_map(move |(id, op)| {
            let passes = move |position: &usize| {
                self.paths[id.index()][*position] != Path::Stopped
                    && self.is_live(op.operands[*position].value)
            };
            (0..op.operands.len()).rev().filter(passes).map(move |position| (id, op, position))
        })
    }
}

/// The values that blocks yield, each with the loop-carried value of the next layer.
fn yielded(program: &Program) -> impl Iterator<Item = (ValueId, ValueId)> + '_ {
    program.outputs.iter().filter_map(|output| Some((output.value, program.carried_into(output)?)))
}

/// Values that share a gradient.
struct Classes {
    /// For a value that shares the gradient of another: the other, which is computed from it.
    owner: Vec<Option<ValueId>>,
    /// For an owner, the value that its gradient is named after.
    face: Vec<ValueId>,
    /// How many uses contribute to the gradient of a value.
    uses: Vec<usize>,
    /// For an owner, whether its gradient is wanted or given.
    has_name: Vec<bool>,
}

impl Classes {
    fn new(program: &Program, directive: &Backward, flow: &Flow) -> Self {
        let mut uses = vec![0; program.values.len()];
        flow.uses(program)
            .for_each(|(_, op, position)| uses[op.operands[position].value.index()] += 1);
        // The next layer uses the yielded value.
        yielded(program)
            .for_each(|(given, _)| uses[given.index()] += usize::from(flow.is_live(given)));
        let mut has_name = flow.wanted.clone();
        has_name[directive.from.index()] |= directive.given.is_some();
        let mut classes = Self {
            owner: vec![None; uses.len()],
            face: program.values.indices().collect(),
            uses,
            has_name,
        };
        for (id, op, position) in flow.uses(program) {
            if flow.paths[id.index()][position] == Path::Through(GradientTerm::Given) {
                classes.share(program, directive, op.operands[position].value, op.result, flow);
            }
        }
        classes
    }

    /// Lets an operand share the gradient of the result, unless each needs its own.
    fn share(
        &mut self,
        program: &Program,
        directive: &Backward,
        operand: ValueId,
        result: ValueId,
        flow: &Flow,
    ) {
        let (a, b) = (&program.values[operand], &program.values[result]);
        let dtype = |of: ValueId| narrow::gradient_dtype(program, directive, of);
        let alike = dtype(operand) == dtype(result)
            && a.repeat == b.repeat
            && a.dims.len() == b.dims.len()
            && a.dims.iter().all(|dim| b.dims.contains(dim));
        let owner = self.owner(result);
        let both = flow.wanted[operand.index()] && self.has_name[owner.index()];
        if !alike || both || self.uses[operand.index()] != 1 {
            return;
        }
        self.owner[operand.index()] = Some(owner);
        if flow.wanted[operand.index()] {
            self.face[owner.index()] = operand;
            self.has_name[owner.index()] = true;
        }
    }

    fn owner(&self, value: ValueId) -> ValueId {
        self.owner[value.index()].unwrap_or(value)
    }

    fn face(&self, value: ValueId) -> ValueId {
        self.face[self.owner(value).index()]
    }

    /// Gradients whose names are taken.
    fn taken_names(
        &self,
        program: &Program,
        directive: &Backward,
        flow: &Flow,
    ) -> Vec<GradientFault> {
        let by_name: IndexMap<&str, ValueId> =
            program.values.iter_enumerated().map(|(id, v)| (v.name.as_str(), id)).collect();
        let given = |of: ValueId| directive.given.is_some() && self.owner(of) == directive.from;
        let named = |of: ValueId| directive.named.iter().any(|(named, _)| *named == of);
        let owners = program
            .values
            .indices()
            .filter(|&of| flow.is_live(of) && self.owner(of) == of && !given(of));
        let faces = owners.map(|of| self.face(of)).filter(|&of| !named(of));
        let taken = faces.filter_map(|of| {
            Some(GradientFault::NameTaken(
                of,
                *by_name.get(gradient_name(&program.values[of].name).as_str())?,
            ))
        });
        taken.collect()
    }

    /// The sharding of the operand of a written collective, to which its gradient is resharded.
    fn shardings(&self, program: &Program, directive: &Backward, flow: &Flow) -> Vec<Option<Pin>> {
        let mut shardings: Vec<Option<Pin>> = vec![None; program.values.len()];
        for op in program
            .ops
            .iter()
            .take(directive.at.index())
            .filter(|op| matches!(op.kind, OpKind::Collective(_)))
        {
            let owner = self.owner(op.result);
            let free = flow.is_live(op.result) && !self.has_name[owner.index()];
            let Some(pin) = op.operands[0].pin.as_ref().filter(|_| free) else { continue };
            let (from, to) = (
                &program.values[op.operands[0].value].dims,
                &program.values[self.face(owner)].dims,
            );
            let dims = to.iter().map(|dim| {
                let position = from.iter().position(|d| d == dim);
                position.map_or_else(DimPin::open, |position| pin.dims[position].clone())
            });
            shardings[self.face(owner).index()]
                .get_or_insert(Pin { dims: dims.collect(), unreduced: Unreduced::default() });
        }
        shardings
    }
}

fn derive(program: Analyzed, directive: &Backward, flow: &Flow, classes: &Classes) -> Program {
    let (mut program, dataflow) = program.into_parts();
    let named = name_gradients(&mut program, directive, flow);
    let shardings = classes.shardings(&program, directive, flow);
    let mut ops: Vec<(OpId, Op, usize)> =
        flow.uses(&program).map(|(id, op, position)| (id, op.clone(), position)).collect();
    blocks::entries_last(&program, &mut ops);
    let mut emitter = Emitter::new(program, named, shardings, directive);
    let mut gradients = Gradients::new(&dataflow, flow, classes);
    gradients.so_far[directive.from.index()] = Some(seed(&mut emitter, directive, classes));
    let mut known: (OpId, Vec<(GradientTerm, ValueId)>) = (directive.at, Vec::new());
    for (id, op, position) in &ops {
        if known.0 != *id {
            known = (*id, Vec::new());
        }
        gradients.go_to(&mut emitter, op);
        let operand = op.operands[*position].value;
        let given = gradients.so_far[classes.owner(op.result).index()];
        match (&flow.paths[id.index()][*position], given, classes.owner[operand.index()]) {
            (Path::Through(term), Some(given), None) => {
                let given = narrow::cotangent(&mut emitter, op, given, &mut known.1);
                gradients.contribute(&mut emitter, operand, (term, given), &mut known.1);
            }
            (Path::Carried, Some(given), _) => gradients.carry(&mut emitter, op, given),
            (Path::Chunked, Some(given), _) => gradients.stack_later(operand, given),
            (Path::Stacked, Some(given), _) => gradients.chunk_later(operand, given),
            _ => {}
        }
    }
    gradients.leave_all(&mut emitter);
    emitter.finish(directive.at, &dataflow)
}

/// For each value, its gradient if that is wanted by name. Those of parameters that the program
/// does not use become outputs.
fn name_gradients(
    program: &mut Program,
    directive: &Backward,
    flow: &Flow,
) -> Vec<Option<ValueId>> {
    let mut named: Vec<Option<ValueId>> = vec![None; program.values.len()];
    directive.named.iter().for_each(|&(of, gradient)| named[of.index()] = Some(gradient));
    let later = program
        .ops
        .iter()
        .skip(directive.at.index())
        .flat_map(|op| &op.operands)
        .map(|operand| operand.value);
    let used: indexmap::IndexSet<ValueId> =
        later.chain(program.outputs.iter().map(|output| output.value)).collect();
    let params = program
        .values
        .indices()
        .filter(|&id| program.values[id].role == Some(Role::Param) && flow.wanted[id.index()]);
    for of in params.filter(|&id| flow.is_live(id)).collect::<Vec<_>>() {
        let (dims, dtype) =
            (program.values[of].dims.clone(), directive.dtype_of(&program.values[of]));
        let gradient = named[of.index()].unwrap_or_else(|| {
            let (name, span) = (gradient_name(&program.values[of].name), directive.span);
            program.values.push(Value::result(name, dims, dtype, span))
        });
        named[of.index()] = Some(gradient);
        let unused = !used.contains(&gradient) && program.optimizer.is_none();
        if let Some(sharding) = program.values[of].declared_sharding.as_ref().filter(|_| unused) {
            let pin = Pin { dims: sharding.dims.clone(), unreduced: Unreduced::default() };
            program.outputs.push(Output {
                value: gradient,
                pin,
                yields_to: None,
                span: directive.span,
            });
        }
    }
    named
}

/// The gradient that `backward` starts from.
fn seed(emitter: &mut Emitter, directive: &Backward, classes: &Classes) -> ValueId {
    let from = directive.from;
    let Some(given) = directive.given else {
        let ones = OpKind::Map(MapFn::new(MapForm::call(Function::Ones)));
        return emitter.statement(ones, vec![from], Into::Gradient(classes.face(from)));
    };
    if emitter.named[from.index()].is_some() {
        emitter.term(&GradientTerm::Given, given, Into::Gradient(from), &mut Vec::new());
    }
    given
}

/// Gradients while their contributions are summed.
struct Gradients<'f> {
    dataflow: &'f Dataflow<OpId>,
    flow: &'f Flow,
    classes: &'f Classes,
    so_far: Vec<Option<ValueId>>,
    contributions: Vec<usize>,
    /// The open blocks, the outermost first.
    open: Vec<blocks::OpenBlock>,
    /// Values that are stacked after their scan, and the gradients of the stacks.
    of_stacks: Vec<(ValueId, ValueId)>,
}

impl<'f> Gradients<'f> {
    fn new(dataflow: &'f Dataflow<OpId>, flow: &'f Flow, classes: &'f Classes) -> Self {
        Self {
            dataflow,
            flow,
            classes,
            so_far: vec![None; flow.live.len()],
            contributions: vec![0; flow.live.len()],
            open: Vec::new(),
            of_stacks: Vec::new(),
        }
    }

    /// Adds the contribution of one use to the gradient of `operand`: a formula, and the gradient
    /// that the formula is linear in.
    fn contribute(
        &mut self,
        emitter: &mut Emitter,
        operand: ValueId,
        (term, given): (&GradientTerm, ValueId),
        known: &mut Vec<(GradientTerm, ValueId)>,
    ) {
        let into = self.next_into(emitter, operand);
        let face = self.classes.face(operand);
        let rank = |value: ValueId| emitter.program.values[value].dims.len();
        let as_it_is = *term == GradientTerm::Given
            && self.classes.uses[operand.index()] > 1
            && rank(given) == rank(operand);
        let before = self.sum_so_far(emitter, operand);
        let part = match (as_it_is, before) {
            (true, _) => given,
            (false, None) => emitter.term(term, given, into, known),
            (false, Some(_)) => emitter.term(term, given, Into::Part(face), known),
        };
        let sum = before.map_or(part, |before| emitter.sum(before, part, into));
        self.set_sum(emitter, operand, sum);
    }

    /// Counts a contribution to the gradient of `operand`; returns whether it is the last, whose
    /// sum is the gradient.
    fn next_into(&mut self, emitter: &Emitter, operand: ValueId) -> Into {
        self.contributions[operand.index()] += 1;
        self.becomes(emitter, operand)
    }

    fn becomes(&self, emitter: &Emitter, operand: ValueId) -> Into {
        let face = self.classes.face(operand);
        if self.completes(emitter, operand) { Into::Gradient(face) } else { Into::Part(face) }
    }
}
