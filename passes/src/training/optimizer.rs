//! Updates of parameters: replaces `optimizer` with update statements, once gradients are derived.
//!
//! Before:
//!
//! ```text
//! param W[D, F]
//! dW = In *B dOut
//! optimizer adam over X
//! ```
//!
//! After:
//!
//! ```text
//! param W[D, F]
//! state mW: f32[D, F_X]
//! state vW: f32[D, F_X]
//! dW = In *B dOut
//! mW.new = ema(mW, dW, 0.9)
//! vW.new = ema_square(vW, dW, 0.999)
//! W.new: bf16 = adam_step(W, mW.new, vW.new, 0.001, 1e-8, 0.0)
//! next mW = mW.new
//! next vW = vW.new
//! next W = W.new
//! ```
//!
//! How gradients and updates are sharded follows from the sharding of the state. State sharded over
//! an axis along which the parameter is replicated makes the gradient scattered instead of
//! all-reduced and the new parameter gathered (ZeRO-1 and 2; an author who wants a replicated
//! gradient declares it), a sharded parameter makes both unnecessary (ZeRO-3). The updates of a
//! block's parameters are at the end of the block in which their gradients are derived, so that the
//! gradient of a layer is freed before the next one is computed; the others are at the end.

mod muon;
mod rows;
mod statements;

use index_vec::IndexVec;
use indexmap::{IndexMap, IndexSet};
use shardwise_ir::Role;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::dtype::DType;
use shardwise_ir::functions::Function;
use shardwise_ir::ids::{DimId, OpId, RepeatId, ValueId};
use shardwise_ir::optimizer::{Optimizer, Rule, StateOver};
use shardwise_ir::program::{
    KernelPart, MapFn, MapForm, Op, OpKind, Operand, Output, Phase, Program, Share, Value,
};
use shardwise_ir::shape;
use shardwise_ir::sharding::{AxisList, AxisRef, DimPin, Pin};
use shardwise_ir::{renumber, sparse};

use crate::layouts::local_shape;

/// Why parameters cannot be updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimizerFault {
    /// No parameter has a gradient.
    Nothing,
    /// The state of the first needs the name that the second has.
    NameTaken(ValueId, ValueId),
}

/// The program with its updates written out; one without an optimizer unchanged.
pub(crate) fn expand(mut program: Program) -> Result<Program, Vec<OptimizerFault>> {
    let Some(optimizer) = program.optimizer.take() else { return Ok(program) };
    let program = Analyzed::from(program);
    let updated: Vec<(ValueId, ValueId)> = trained(&program);
    if updated.is_empty() {
        return Err(vec![OptimizerFault::Nothing]);
    }
    let program = program.into_program();
    let taken = program.values.iter().map(|value| value.name.clone()).collect();
    let mut writer =
        UpdateEmitter { program, optimizer, taken, ops: Vec::new(), faults: Vec::new() };
    for (param, gradient) in updated {
        writer.update(param, gradient);
    }
    if writer.faults.is_empty() { Ok(writer.finish()) } else { Err(writer.faults) }
}

/// Parameters with their gradients, except those that the program updates itself.
pub(crate) fn trained(program: &Analyzed) -> Vec<(ValueId, ValueId)> {
    let written = |of: ValueId| program.outputs.iter().any(|output| output.yields_to == Some(of));
    let gradient = |of: ValueId| {
        let (of, name) = (&program.values[of], format!("d{}", program.values[of].name));
        let derived = |id: ValueId| {
            let definition = program.dataflow().definition(id);
            definition.is_some_and(|op| program.ops[op].phase == Phase::Backward)
        };
        let alike = |value: &Value| {
            value.dims.len() == of.dims.len() && value.dims.iter().all(|dim| of.dims.contains(dim))
        };
        let mut values = program.values.iter_enumerated();
        let found = values.find(|(id, value)| value.name == name && derived(*id) && alike(value));
        found.map(|(id, _)| id)
    };
    let params = program.values.iter_enumerated().filter(|(_, value)| value.is_trained());
    params.filter(|(id, _)| !written(*id)).filter_map(|(id, _)| Some((id, gradient(id)?))).collect()
}

/// A program that updates are added to.
struct UpdateEmitter {
    program: Program,
    optimizer: Optimizer,
    taken: IndexSet<String>,
    ops: Vec<Op>,
    faults: Vec<OptimizerFault>,
}

impl UpdateEmitter {
    /// The statements that update one parameter.
    fn update(&mut self, param: ValueId, gradient: ValueId) {
        if let Some(rate) = self.optimizer.tables.clone()
            && let Some(row) = rows::row(&self.program, param, gradient)
        {
            return self.update_rows(param, gradient, row, rate);
        }
        let name = self.program.values[param].name.clone();
        let moment = |letter: char| format!("{letter}{name}");
        let moments = self.optimizer.moments;
        let master =
            self.optimizer.master.map(|dtype| self.state(param, format!("{name}.master"), dtype));
        let of = master.unwrap_or(param);
        let next = match self.rule_of(param) {
            Rule::Adam { betas: [beta1, beta2], step } => {
                let (m, v) = (
                    self.state(param, moment('m'), moments),
                    self.state(param, moment('v'), moments),
                );
                let m = self.next(Function::Ema, m, &[gradient], vec![beta1]);
                let v = self.next(Function::EmaSquare, v, &[gradient], vec![beta2]);
                self.next(Function::AdamStep, of, &[m, v], step.to_vec())
            }
            Rule::Sgd { rate, momentum: None } => {
                self.next(Function::SgdStep, of, &[gradient], vec![rate])
            }
            Rule::Sgd { rate, momentum: Some(momentum) } => {
                let m = self.state(param, moment('m'), moments);
                let m = self.next(Function::Momentum, m, &[gradient], vec![momentum]);
                self.next(Function::SgdStep, of, &[m], vec![rate])
            }
            Rule::Muon { rate, momentum, .. } => {
                let m = self.state(param, moment('m'), moments);
                let m = self.next(Function::Momentum, m, &[gradient], vec![momentum]);
                let direction = muon::orthogonal(self, param, m);
                self.next(Function::SgdStep, of, &[direction], vec![rate])
            }
        };
        if master.is_some() {
            let dtype = self.program.values[param].dtype;
            let block = self.program.values[gradient].repeat;
            let cast = MapFn::cast(self.program.values[next].dtype, dtype);
            self.statement(cast, vec![next], param, block);
        }
    }

    /// How a parameter is updated: Muon leaves all but matrices to another rule.
    fn rule_of(&self, param: ValueId) -> Rule {
        match &self.optimizer.rule {
            Rule::Muon { others, .. } if !muon::is_matrix(&self.program, param) => {
                others.as_ref().clone()
            }
            rule => rule.clone(),
        }
    }

    /// The state called `name` that belongs to `param`: what the program declares, else a new one.
    fn state(&mut self, param: ValueId, name: String, dtype: DType) -> ValueId {
        let all: Vec<usize> = (0..self.program.values[param].dims.len()).collect();
        self.state_along(param, name, dtype, &all)
    }

    /// The state that has the dimensions of `param` at these places only.
    fn state_along(
        &mut self,
        param: ValueId,
        name: String,
        dtype: DType,
        places: &[usize],
    ) -> ValueId {
        let mut of = self.program.values[param].clone();
        of.dims = places.iter().map(|&place| of.dims[place]).collect();
        if let Some(pin) = &mut of.declared_sharding {
            pin.dims = places.iter().map(|&place| pin.dims[place].clone()).collect();
        }
        if let Some(known) = self.program.values.position(|value| value.name == name) {
            let value = &self.program.values[known];
            if value.role != Some(Role::State) || value.dims != of.dims || value.repeat != of.repeat
            {
                self.faults.push(OptimizerFault::NameTaken(param, known));
            }
            return known;
        }
        let sharding = Some(self.state_sharding(&of));
        self.taken.insert(name.clone());
        let (dtype_written, span) = (dtype != DType::default(), self.optimizer.span);
        self.program.values.push(Value {
            name,
            dtype,
            dtype_written,
            role: Some(Role::State),
            declared_sharding: sharding,
            span,
            ..of
        })
    }

    /// The sharding of the state of `param`.
    fn state_sharding(&self, param: &Value) -> Pin {
        let of = param.declared_sharding.clone().unwrap_or_else(|| Pin::open(param.dims.len()));
        match &self.optimizer.over {
            StateOver::Parameter => of,
            StateOver::Open => Pin { dims: vec![DimPin::open(); param.dims.len()], ..of },
            StateOver::Axes(axes) => {
                axes.iter().fold(of, |pin, &axis| self.split(&param.dims, pin, axis))
            }
        }
    }

    /// `pin` with `axis` appended to the dimension with the largest blocks among those that it
    /// divides; unchanged where there is none.
    fn split(&self, dims: &[DimId], mut pin: Pin, axis: AxisRef) -> Pin {
        if pin.dims.iter().any(|pin| pin.named().contains(&axis)) {
            return pin;
        }
        let mesh = &self.program.mesh;
        let appended = |axes: &AxisList| axes.iter().copied().chain([axis]).collect::<AxisList>();
        let block = |place: usize, axes: &AxisList| {
            self.program.dims[dims[place]].size
                / axes.iter().fold(1, |n: u64, axis| n.saturating_mul(axis.size(mesh)))
        };
        let candidates =
            pin.dims.iter().enumerate().filter_map(|(place, pin)| Some((place, pin.exact()?)));
        let fitting = candidates.filter(|(place, axes)| {
            local_shape::divides(&self.program, None, dims[*place], &appended(axes))
        });
        let largest =
            fitting.map(|(place, axes)| (block(place, axes), std::cmp::Reverse(place))).max();
        if let Some((_, std::cmp::Reverse(place))) = largest
            && let DimPin::Exactly(axes) = &mut pin.dims[place]
        {
            axes.push(axis);
        }
        pin
    }

    /// The value of `of` in the next step: `function(of, others…, numbers…)`.
    fn next(
        &mut self,
        function: Function,
        of: ValueId,
        others: &[ValueId],
        numbers: Vec<String>,
    ) -> ValueId {
        let form = MapForm::Call { function, numbers };
        let operands = [of].into_iter().chain(others.iter().copied()).collect();
        let block = others.first().and_then(|&other| self.program.values[other].repeat);
        self.statement(MapFn::new(form), operands, of, block)
    }

    /// Adds a statement whose result is the value of `of` in the next step.
    fn statement(
        &mut self,
        function: MapFn,
        operands: Vec<ValueId>,
        of: ValueId,
        repeat: Option<RepeatId>,
    ) -> ValueId {
        let kind = OpKind::Map(function);
        let dtypes: Vec<DType> =
            operands.iter().map(|&operand| self.program.values[operand].dtype).collect();
        let inferred = shape::dtype(&kind, &dtypes);
        let before = self.program.values[of].clone();
        let span = self.optimizer.span;
        let name = self.fresh(&before.name);
        let dtype_written = before.dtype != inferred;
        let result = self.program.values.push(Value {
            name,
            dtype_written,
            role: None,
            declared_sharding: None,
            repeat,
            span,
            ..before.clone()
        });
        let operands =
            operands.into_iter().map(|value| Operand { value, pin: None, span }).collect();
        self.ops.push(Op {
            kind,
            operands,
            result,
            result_pin: None,
            phase: Phase::Backward,
            share: Share::WHOLE,
            is_kept: false,
            kernel: KernelPart::default(),
            repeat,
            span,
        });
        if let Some(pin) = before.declared_sharding {
            self.program.outputs.push(Output { value: result, pin, yields_to: Some(of), span });
        }
        result
    }

    /// `W.new`, or with a number after it if that is taken.
    fn fresh(&mut self, name: &str) -> String {
        let numbered = (2..=self.taken.len() + 2).map(|number| format!("{name}.new{number}"));
        let fresh = [format!("{name}.new")]
            .into_iter()
            .chain(numbered)
            .find(|name| !self.taken.contains(name))
            .unwrap_or_default();
        self.taken.insert(fresh.clone());
        fresh
    }

    /// `oW.1`, `oW.2`: the first that is not taken.
    fn numbered(&mut self, base: &str) -> String {
        let mut names = (1..=self.taken.len() + 1).map(|number| format!("{base}.{number}"));
        let name = names.find(|name| !self.taken.contains(name)).unwrap_or_default();
        self.taken.insert(name.clone());
        name
    }

    /// The program with the statements at the ends of their blocks.
    fn finish(mut self) -> Program {
        let ops = std::mem::take(&mut self.program.ops);
        let mut all: IndexVec<OpId, Op> = IndexVec::with_capacity(ops.len() + self.ops.len());
        let last_of: IndexMap<RepeatId, OpId> =
            ops.iter_enumerated().filter_map(|(id, op)| Some((op.repeat?, id))).collect();
        for (id, op) in ops.into_iter_enumerated() {
            let ends = op.repeat.filter(|block| last_of[block] == id);
            all.push(op);
            if let Some(block) = ends {
                all.extend(self.ops.extract_if(.., |op| op.repeat == Some(block)));
            }
        }
        all.extend(self.ops);
        self.program.ops = all;
        renumber::by_appearance(&mut self.program);
        sparse::mark(&mut self.program);
        self.program
    }
}
