//! Programs at sizes at which all of them can be computed without devices.

use std::collections::BTreeMap;

use shardwise::{AxisSize, DimSize, Options, Program, verify};
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::DimId;
use shardwise_ir::program::Value;

/// A program with two devices an axis and 16 elements a dimension, if it is one at these sizes.
pub fn program(name: &str, source: &str) -> Option<Analyzed> {
    let whole = shardwise::check(name, source, &Options::default()).program?;
    let mesh = whole.mesh.axes.iter().map(|axis| AxisSize::new(&axis.name, 2));
    let plain = whole.dims.iter_enumerated().filter(|(_, dim)| dim.factors.is_empty());
    let dims = plain.map(|(id, dim)| DimSize { name: dim.name.clone(), size: size(&whole, id) });
    let options = Options { mesh: mesh.collect(), dims: dims.collect(), ..Options::default() };
    shardwise::check(name, source, &options).program
}

/// Sixteen, or two rows a microbatch.
fn size(program: &Program, dim: DimId) -> u64 {
    let cuts = program
        .repeats
        .iter()
        .filter_map(|block| block.microbatches_of.map(|cut| (cut, block.count)));
    let mut sizes = cuts.flat_map(|(cut, count)| [(cut.microbatch, 2), (cut.batch, 2 * count)]);
    sizes.find(|&(of, _)| of == dim).map_or(16, |(_, size)| size)
}

/// Every output of a program by name, computed from data that depend on names alone; what is no
/// number is identified by its bits.
///
/// # Panics
/// Never: all declared values are given.
pub fn outputs(program: &Program) -> BTreeMap<String, Vec<u64>> {
    let declared = program.values.iter().filter(|value| value.is_declared());
    let elements = |value: &Value| {
        value.dims.iter().map(|&dim| program.dims[dim].size as usize).product::<usize>()
    };
    let letters = |name: &str| name.bytes().map(usize::from).sum::<usize>();
    let data = |value: &Value| {
        (0..elements(value)).map(|i| ((i * 7 + letters(&value.name)) % 11) as f64 - 5.0).collect()
    };
    let given = declared.map(|value| (value.name.clone(), data(value))).collect();
    let values = verify::evaluate(program, &given).expect("all declared values are given");
    let names: Vec<&str> =
        program.outputs.iter().map(|output| program.values[output.value].name.as_str()).collect();
    let leaving = values.into_iter().filter(|(name, _)| names.contains(&name.as_str()));
    leaving.map(|(name, numbers)| (name, numbers.into_iter().map(f64::to_bits).collect())).collect()
}
