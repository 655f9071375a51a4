//! Builds a plan from an assignment: merges the reshard trees of all definitions into program
//! order.
//!
//! A step is placed where it is first needed: before the operation that uses it or, on the path to
//! the declared sharding or an output, right after the operation that produces the value. That
//! order is deterministic and keeps live ranges as short as program order allows.

use indexmap::{IndexMap, IndexSet};
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{MapForm, OpKind, Program};

use crate::insert_collectives::placement::{self, StepPlacer, collective_step};
use crate::problem::{Choice, Decision, Definition, Demand, Problem, Root};
use crate::reshard::paths::Hop;
use crate::reshard::sharding_space::{State, describe};
use crate::solver::dreyfus_wagner::{Terminal, Trees};

/// The plan of an assignment.
pub(crate) fn plan(problem: &Problem<'_>, assignment: &[usize], trees: &mut [Trees<'_>]) -> Plan {
    let mut builder =
        PlanBuilder { problem, assignment, trees: Vec::new(), steps: StepPlacer::default() };
    for definition in &problem.definitions {
        builder.trees.push(reshard_tree(
            problem,
            definition,
            assignment,
            &mut trees[problem.tables.number(definition.value)],
        ));
    }
    builder.run();
    let chosen = problem.variables.iter().zip(assignment).filter_map(|(variable, &choice)| {
        match variable.decides {
            Decision::Declaration(value) => Some((value, variable.choices[choice].result)),
            Decision::Operation(_) => None,
        }
    });
    let declared: IndexMap<ValueId, State> = chosen.collect();
    let mut plan = placement::plan_of(problem.tables, &declared, builder.steps.all);
    let retained: IndexSet<ValueId> = problem
        .definitions
        .iter()
        .filter(|definition| definition.kept_gathered)
        .map(|definition| definition.value)
        .collect();
    placement::mark_retained(&mut plan, |value| retained.contains(&value));
    plan
}

/// The reshards of a definition.
struct ReshardTree {
    /// The steps to its declared sharding, in order.
    to_declared: Vec<Hop>,
    /// The steps from there to its uses, those not yet placed.
    to_uses: Vec<Hop>,
    /// The state in which each demand is served.
    served: Vec<State>,
}

/// The steps of a definition's tree, through its declared sharding.
fn reshard_tree(
    problem: &Problem<'_>,
    definition: &Definition,
    assignment: &[usize],
    trees: &mut Trees<'_>,
) -> ReshardTree {
    let (root, uses) = problem.realised(definition, assignment);
    let mut to_declared = Vec::new();
    let mut start = root;
    if let Some(declared) = &definition.declared {
        let cost = |state: State, trees: &mut Trees<'_>| {
            trees.graph().distance(root, state) + trees.cost(state, &uses)
        };
        let best = declared.iter().copied().min_by_key(|&state| (cost(state, trees), state));
        start = best.unwrap_or(root);
        to_declared = problem.table(definition.value).path(root, start);
    }
    let mut to_uses = problem.table(definition.value).hops(trees.edges(start, &uses));
    let reached: Vec<State> = [start].into_iter().chain(to_uses.iter().map(|hop| hop.to)).collect();
    let serve = |group: &Terminal| {
        reached.iter().copied().find(|state| group.contains(state)).unwrap_or(start)
    };
    let served: Vec<State> = uses.iter().map(serve).collect();
    let passed: Vec<State> = to_declared.iter().map(|hop: &Hop| hop.from).collect();
    leave_out_passed(problem, definition, &mut to_uses, &passed, &served);
    ReshardTree { to_declared, to_uses, served }
}

/// Removes free steps whose result is already on the path to the declared sharding.
fn leave_out_passed(
    problem: &Problem<'_>,
    definition: &Definition,
    to_uses: &mut Vec<Hop>,
    passed: &[State],
    served: &[State],
) {
    let free = |hop: &Hop| {
        is_free(
            problem.program,
            &collective_step(problem.tables, definition.value, hop.from, hop.to, &hop.kind),
        )
    };
    let paid: Vec<State> = to_uses.iter().filter(|hop| !free(hop)).map(|hop| hop.to).collect();
    let all = to_uses.clone();
    let before = |state: &State| all.iter().find(|hop| hop.to == *state).map(|hop| hop.from);
    let is_free_way =
        |to: State| !std::iter::successors(Some(to), before).any(|state| paid.contains(&state));
    to_uses.retain(|hop| !(passed.contains(&hop.to) && is_free_way(hop.to)));
    let serves = |hop: &Hop, hops: &[Hop]| {
        served.contains(&hop.to) || hops.iter().any(|next| next.from == hop.to)
    };
    while let Some(idle) =
        to_uses.iter().position(|hop| is_free_way(hop.to) && !serves(hop, to_uses))
    {
        to_uses.remove(idle);
    }
}

/// The step that runs an operation as chosen; what it does not look at is as it was `first`.
pub(crate) fn local_step(
    problem: &Problem<'_>,
    id: OpId,
    choice: &Choice,
    first: impl Fn(ValueId) -> State,
) -> Step {
    let op = &problem.program.ops[id];
    let material = |value: ValueId, state: State| Materialization {
        value,
        sharding: problem.table(value).space.sharding(state).clone(),
    };
    let looked_at = op.sharded_operands().len();
    let operands = op.operands.iter().enumerate().map(|(place, operand)| {
        let is_looked_at = place < looked_at;
        let state = if is_looked_at { choice.operands[place] } else { first(operand.value) };
        material(operand.value, state)
    });
    Step {
        kind: StepKind::Local(id),
        operands: operands.collect(),
        result: material(op.result, choice.result),
        repeat: op.repeat,
    }
}

struct PlanBuilder<'p, 'a> {
    problem: &'p Problem<'a>,
    assignment: &'p [usize],
    trees: Vec<ReshardTree>,
    steps: StepPlacer,
}

impl PlanBuilder<'_, '_> {
    fn run(&mut self) {
        let program = self.problem.program;
        let mut variable_of = vec![None; program.ops.len()];
        for (number, variable) in self.problem.variables.iter().enumerate() {
            if let Some(op) = variable.decides.operation() {
                variable_of[op.index()] = Some(number);
            }
        }
        for (op_id, op) in program.ops.iter_enumerated() {
            if op.repeat != self.steps.block {
                self.end_blocks(op.repeat);
                self.steps.enter(program, op.repeat);
            }
            match (&op.kind, variable_of[op_id.index()]) {
                (OpKind::Collective(_), _) => self.written(op_id),
                (_, Some(variable)) => self.operation(op_id, variable),
                (_, None) => {}
            }
        }
        self.end_blocks(None);
        self.steps.enter(program, None);
        for definition in 0..self.problem.definitions.len() {
            self.finish(definition);
        }
    }

    /// Ends the blocks that a statement in `next` is not in.
    fn end_blocks(&mut self, next: Option<RepeatId>) {
        for block in self.steps.ends_before(self.problem.program, next) {
            self.steps.enter(self.problem.program, Some(block));
            self.reshard_carried();
        }
    }

    /// At the end of a block, its yielded values are resharded to the shardings in which they enter
    /// it.
    fn reshard_carried(&mut self) {
        let (problem, block) = (self.problem, self.steps.block);
        for (variable, &choice) in problem.variables.iter().zip(self.assignment) {
            // The yielded value comes after the operands.
            let (own, yielded) =
                match variable.decides.operation().map(|op| &problem.program.ops[op]) {
                    Some(op) => (1, op.repeat == block && op.is(&MapForm::LoopCarried)),
                    None => (0, true),
                };
            for (&given, &need) in variable
                .operands
                .iter()
                .zip(&variable.choices[choice].operands)
                .skip(own)
                .filter(|_| yielded)
            {
                if problem.program.values[problem.definitions[given].value].repeat == block {
                    self.reach(given, need);
                }
            }
        }
    }

    fn operation(&mut self, op_id: OpId, number: usize) {
        let variable = &self.problem.variables[number];
        let choice = &variable.choices[self.assignment[number]];
        let op = &self.problem.program.ops[op_id];
        for (k, &definition) in variable.operands.iter().take(op.operands.len()).enumerate() {
            self.reach(definition, choice.operands[k]);
        }
        let step = local_step(self.problem, op_id, choice, |value| self.first(value));
        self.steps.push(step);
        self.reshard_to_declared(variable.result);
    }

    /// The state in which a value is first defined.
    fn first(&self, value: ValueId) -> State {
        let definition =
            self.problem.definitions.iter().find(|definition| definition.value == value);
        match definition.map(|definition| &definition.root) {
            Some(Root::Fixed(state)) => *state,
            Some(Root::Produced(variable)) => {
                self.problem.variables[*variable].choices[self.assignment[*variable]].result
            }
            None => 0,
        }
    }

    fn written(&mut self, op_id: OpId) {
        let Some(given) = self
            .problem
            .definitions
            .iter()
            .position(|definition| definition.written == Some(op_id))
        else {
            return;
        };
        let op = &self.problem.program.ops[op_id];
        let (Some(from), Some(to)) = (
            op.operands[0].pin.as_ref().and_then(shardwise_ir::sharding::Pin::exact),
            op.result_pin.as_ref().and_then(shardwise_ir::sharding::Pin::exact),
        ) else {
            return;
        };
        if let Some(state) = self.problem.table(op.operands[0].value).space.find(&from) {
            for definition in
                (0..given).filter(|&s| self.problem.definitions[s].value == op.operands[0].value)
            {
                if self.trees[definition].served.contains(&state) {
                    self.reach(definition, state);
                }
            }
        }
        let OpKind::Collective(kind) = &op.kind else {
            return;
        };
        self.steps.push(Step {
            kind: StepKind::Collective(describe(kind, &from, &to), Some(op_id)),
            operands: vec![Materialization { value: op.operands[0].value, sharding: from }],
            result: Materialization { value: op.result, sharding: to },
            repeat: op.repeat,
        });
        self.reshard_to_declared(given);
    }

    /// Places the steps of a definition that lead to `state`.
    fn reach(&mut self, definition: usize, state: State) {
        let mut needed = Vec::new();
        let mut at = state;
        while let Some(i) = self.trees[definition].to_uses.iter().position(|hop| hop.to == at) {
            let hop = self.trees[definition].to_uses.remove(i);
            at = hop.from;
            needed.push(hop);
        }
        for hop in needed.into_iter().rev() {
            self.hop(definition, &hop);
        }
    }

    /// One step of a definition's tree.
    fn hop(&mut self, definition: usize, hop: &Hop) {
        let value = self.problem.definitions[definition].value;
        self.place(
            definition,
            collective_step(self.problem.tables, value, hop.from, hop.to, &hop.kind),
        );
    }

    fn place(&mut self, definition: usize, step: Step) {
        if self.problem.definitions[definition].per_use {
            self.steps.place_here(step);
        } else {
            self.steps.place(self.problem.program, step);
        }
    }

    /// The steps right after the operation that produces the value: those on the paths to its
    /// declared sharding and to outputs.
    fn reshard_to_declared(&mut self, definition: usize) {
        for hop in std::mem::take(&mut self.trees[definition].to_declared) {
            self.hop(definition, &hop);
        }
        let demands =
            self.problem.definitions[definition].demands.iter().zip(&self.trees[definition].served);
        let leaving: Vec<State> = demands
            .filter(|(demand, _)| matches!(demand, Demand::Fixed(_)))
            .map(|(_, &state)| state)
            .collect();
        for state in leaving {
            self.reach(definition, state);
        }
    }

    fn finish(&mut self, definition: usize) {
        while let Some(hop) = self.trees[definition].to_uses.last().cloned() {
            self.reach(definition, hop.to);
        }
    }
}

/// Whether a collective communicates nothing: it is local, or over axes of size 1.
fn is_free(program: &Program, step: &Step) -> bool {
    let StepKind::Collective(collective, _) = &step.kind else { return false };
    collective.kind.is_free() || collective.axes.iter().all(|axis| axis.size(&program.mesh) == 1)
}
