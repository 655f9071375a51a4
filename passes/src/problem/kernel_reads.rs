//! What kernels read of a value beside the block that the first of their operations names
//! ([`crate::cost::kernel_reads`]), as terms of the solver's model.
//!
//! The term of a value is a table over the layouts of the operations that read it, by the bytes of
//! their blocks. The tree of the value's definition has the same operations as ends, so that the
//! table makes no problem harder to eliminate.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::ValueId;
use shardwise_ir::program::Op;

use crate::cost::{local, pipeline_stages};
use crate::problem::{Choice, Decision, Problem};
use crate::solver::model::{CostTable, Term};
use crate::solver::weight::Weight;

/// Combinations of blocks up to which a term has all operations of a kernel that read a value; else
/// it has the first ones, which is a lower bound.
const MOST_COMBINATIONS: usize = 4096;

/// The variable of an operation, and the place of an operand.
type Reader = (usize, usize);

/// A kernel, whether its product reads or the others, and what.
type KernelValue = (u32, bool, ValueId);

/// The operands that name a value in the operations of a kernel that read it together.
#[derive(Clone, Debug)]
pub(super) struct KernelRead {
    /// In the order of the program.
    readers: Vec<Reader>,
}

/// The reads of all kernels that may need more than the block of their first operation.
pub(super) fn of_problem(problem: &Problem<'_>) -> Vec<KernelRead> {
    let mut reads: IndexMap<KernelValue, Vec<Reader>, FxBuildHasher> = IndexMap::default();
    for (number, variable) in problem.variables.iter().enumerate() {
        let Decision::Operation(id) = variable.decides else { continue };
        let op = &problem.program.ops[id];
        let Some(kernel) = op.kernel.number.filter(|_| local::reads_all(op)) else { continue };
        for (place, operand) in op.operands.iter().enumerate() {
            let readers = reads.entry((kernel, op.is_product(), operand.value)).or_default();
            // An operation that names a value twice reads the same block of it.
            if readers.last().is_none_or(|&(last, _)| last != number)
                && (readers.is_empty() || op.kernel.has_read_before(place))
            {
                readers.push((number, place));
            }
        }
    }
    let several = reads.into_values().filter(|readers| readers.len() > 1);
    several.map(|readers| KernelRead { readers }).collect()
}

impl KernelRead {
    /// The cost of what is read beside the first block; `None` where no choice reads more.
    pub(super) fn term(&self, problem: &Problem<'_>) -> Option<Term> {
        let bytes: Vec<Vec<f64>> =
            self.readers.iter().map(|&reader| blocks(problem, reader)).collect();
        let scope = self.readers.iter().map(|&(variable, _)| variable).collect();
        let table = CostTable::over_numbers(scope, &bytes, MOST_COMBINATIONS, |blocks| {
            let mut read = blocks.first().copied().unwrap_or_default();
            let mut total = Weight::ZERO;
            for (&(variable, _), &block) in self.readers.iter().zip(blocks).skip(1) {
                if block > read {
                    total = total + read_weight(problem, variable, block - read);
                    read = block;
                }
            }
            total
        });
        (!table.is_zero()).then_some(Term::Table(table))
    }
}

/// What the terms that a variable is in rise by at most between two of its choices.
pub(super) struct Changes<'p> {
    problem: &'p Problem<'p>,
    variable: usize,
    terms: Vec<TermOfVariable>,
}

/// A term that a variable is in.
struct TermOfVariable {
    /// Whether its operation is the first that reads the value. Its own price has the whole block,
    /// and the term what others read beyond it, so that a larger one makes the term smaller.
    is_first: bool,
    /// The bytes of the block that each choice reads.
    blocks: Vec<f64>,
}

impl<'p> Changes<'p> {
    pub(super) fn of(problem: &'p Problem<'p>, variable: usize) -> Self {
        let own = |read: &'p KernelRead| {
            let place = read.readers.iter().position(|&(other, _)| other == variable)?;
            let blocks = blocks(problem, read.readers[place]);
            Some(TermOfVariable { is_first: place == 0, blocks })
        };
        let terms = problem.kernel_reads.iter().filter_map(own).collect();
        Self { problem, variable, terms }
    }

    pub(super) fn between(&self, better: usize, choice: usize) -> Weight {
        let rise = |term: &TermOfVariable| {
            let more = term.blocks[better] - term.blocks[choice];
            let bytes = if term.is_first { -more } else { more };
            read_weight(self.problem, self.variable, bytes.max(0.0))
        };
        self.terms.iter().map(rise).sum()
    }
}

fn operation<'a>(problem: &'a Problem<'_>, variable: usize) -> &'a Op {
    let decided = problem.variables[variable].decides.operation();
    &problem.program.ops[decided.expect("kernels are of operations")]
}

/// The bytes of the block that each choice of a variable reads of an operand.
fn blocks(problem: &Problem<'_>, (variable, place): Reader) -> Vec<f64> {
    let op = operation(problem, variable);
    let read = |choice: &Choice| {
        let operands = op.operands.iter().zip(&choice.operands);
        let shardings: Vec<_> =
            operands.map(|(of, &state)| problem.table(of.value).space.sharding(state)).collect();
        local::read_bytes(problem.program, op, place, &shardings)
    };
    problem.variables[variable].choices.iter().map(read).collect()
}

/// The weight of reading so many bytes.
fn read_weight(problem: &Problem<'_>, variable: usize, bytes: f64) -> Weight {
    let op = operation(problem, variable);
    let cost_model = &problem.tables.cost_model;
    let runs_alone = pipeline_stages::is_computed_alone(problem.program, op);
    let (_, second) = cost_model.of_step(runs_alone, problem.compute);
    let often = cost_model.turns_of_compute(problem.program.trip_count_of(op), problem.compute);
    Weight::seconds(second * local::read_s(problem.program, op, bytes)).times(often)
}
