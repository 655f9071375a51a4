//! The uses of each value, its blocks, and whether a kernel leaves it on the chip.

use rustc_hash::FxHashMap;
use shardwise_ir::ids::ValueId;
use shardwise_ir::program::KernelPart;

use crate::cost::held::is_resident;
use crate::layouts::local_shape;
use crate::problem::{Demand, Problem};
use crate::search::memory::live_blocks::block::OnChip;
use crate::training::frameworks::Frameworks;

/// Uses of one value: their sets are tabulated.
const MOST_USES: usize = 6;

/// Shardings of one value.
const MOST_SHARDINGS: usize = 1000;

/// Of one definition.
pub(super) struct Uses {
    /// The statements of its uses, those of outputs after all.
    pub(super) at: Vec<usize>,
    pub(super) last: Option<usize>,
    pub(super) is_resident: bool,
    /// The bytes of its blocks.
    pub(super) bytes: Vec<f64>,
    /// The same, in ascending order.
    pub(super) sizes: Vec<f64>,
    /// For each block, the first that is as large.
    pub(super) first_as_large: Vec<u32>,
    /// Where its kernel leaves it on the chip: its bit, and the last statement of the kernel that
    /// reads it.
    pub(super) on_chip: Option<(OnChip, usize)>,
    /// The place of its operation in a kernel.
    pub(super) kernel: KernelPart,
}

impl Uses {
    pub(super) fn new(
        problem: &Problem<'_>,
        frameworks: &Frameworks,
        number: usize,
    ) -> Option<Self> {
        let definition = &problem.definitions[number];
        let (program, value) = (problem.program, definition.value);
        let definitions = problem.definitions.iter();
        let is_only = definitions.filter(|other| other.value == value).count() == 1;
        let space = &problem.table(value).space;
        let is_small = definition.demands.len() <= MOST_USES && space.len() <= MOST_SHARDINGS;
        let is_once =
            definition.multiplicity == 1 && !definition.kept_gathered && !definition.per_use;
        if !(is_only && is_small && is_once) || frameworks.keep(value) {
            return None;
        }
        let end = problem.variables.len();
        let at: Vec<usize> = definition
            .demands
            .iter()
            .map(|demand| if let Demand::Operand(variable, _) = demand { *variable } else { end })
            .collect();
        let bytes = |sharding| {
            frameworks.copies(program, value) * local_shape::local_bytes(program, value, sharding)
        };
        let on_chip = last_read_on_chip(problem, value, &at).map(|last| (0, last));
        let producer = program.dataflow().definition(value).map(|op| &program.ops[op]);
        let bytes: Vec<f64> = space.shardings().map(bytes).collect();
        let mut sizes = bytes.clone();
        sizes.sort_by(f64::total_cmp);
        let mut first_of: FxHashMap<u64, u32> = FxHashMap::default();
        let numbered = bytes.iter().map(|size| size.to_bits()).zip(0..);
        let first_as_large =
            numbered.map(|(size, state)| *first_of.entry(size).or_insert(state)).collect();
        Some(Self {
            sizes,
            first_as_large,
            last: at.iter().copied().max(),
            at,
            is_resident: is_resident(program, value),
            bytes,
            on_chip,
            kernel: producer.map(|op| op.kernel).unwrap_or_default(),
        })
    }
}

/// Of a value that its kernel leaves on the chip, the last of its uses that belongs to the kernel.
fn last_read_on_chip(problem: &Problem<'_>, value: ValueId, at: &[usize]) -> Option<usize> {
    let program = problem.program;
    let producer = &program.ops[program.dataflow().definition(value)?];
    let is_alike = |variable: usize| {
        let reader = problem.variables.get(variable).and_then(|it| it.decides.operation());
        reader.is_some_and(|reader| program.ops[reader].phase == producer.phase)
    };
    let last = at.iter().copied().filter(|&variable| is_alike(variable)).max();
    last.filter(|_| producer.kernel.result_on_chip)
}

/// Gives each definition that may be on the chip a bit; `None` if there are too few.
pub(super) fn number_on_chip(definitions: &mut [Uses]) -> Option<()> {
    let on_chip = definitions.iter_mut().filter_map(|uses| uses.on_chip.as_mut());
    for (number, (bit, _)) in on_chip.enumerate() {
        *bit = OnChip::checked_shl(1, number as u32)?;
    }
    Some(())
}
