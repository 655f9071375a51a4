//! Expands a grid to points: the mesh shapes for each program, and the sizes of each range.

use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::Program;
use shardwise_ir::sharding::Pin;

use super::grid::{Grid, Mesh, Sizes};
use super::{Size, Source};
use crate::driver::check;
use crate::options::{DimSize, Options};

/// One combination.
pub(super) struct Combination {
    /// The program.
    pub(super) program: usize,
    pub(super) sizes: Vec<Size>,
    /// The options of the point.
    pub(super) options: Options,
}

/// The limit of points: all are kept until the table is written.
const MOST: usize = 100_000;

/// Every combination, in the order hardware, sizes, program, mesh.
pub(super) fn combinations(
    sources: &[Source],
    programs: &[Program],
    grid: &Grid,
    options: &Options,
) -> Result<Vec<Combination>, String> {
    let meshes: Vec<Vec<Mesh>> =
        programs.iter().map(|program| meant_for(program, &grid.meshes)).collect();
    let sizes = sizes(&granules(sources, &meshes, grid, options), grid);
    let hardware: Vec<Option<String>> = if grid.hardware.is_empty() {
        vec![options.hardware.clone()]
    } else {
        grid.hardware.iter().cloned().map(Some).collect()
    };
    let shapes: usize = meshes.iter().map(Vec::len).sum();
    let points = shapes.saturating_mul(sizes.len()).saturating_mul(hardware.len());
    if points > MOST {
        return Err(format!(
            "these are {points} points, and `sweep` plans {MOST} at most; give fewer sizes or mesh \
                shapes, or sweep parts of them one after the other"
        ));
    }
    let mut combinations = Vec::new();
    for hardware in &hardware {
        for sizes in &sizes {
            for (program, meshes) in meshes.iter().enumerate() {
                for mesh in meshes {
                    let dims = sizes
                        .iter()
                        .map(|size| DimSize { name: size.dim.clone(), size: size.size })
                        .collect();
                    let options = Options {
                        hardware: hardware.clone(),
                        mesh: mesh.clone(),
                        dims,
                        ..options.clone()
                    };
                    combinations.push(Combination { program, sizes: sizes.clone(), options });
                }
            }
        }
    }
    Ok(combinations)
}

/// The shapes for `program`: of those that name only its axes, the ones that name most of them. If
/// none fits, all shapes, so that resolving reports the error. Without shapes, the program's own.
fn meant_for(program: &Program, groups: &[Vec<Mesh>]) -> Vec<Mesh> {
    if groups.is_empty() {
        return vec![Mesh::new()];
    }
    let fits = |group: &&Vec<Mesh>| {
        group.iter().flatten().all(|axis| program.mesh.find(&axis.name).is_some())
    };
    let named = |group: &Vec<Mesh>| group.first().map_or(0, Vec::len);
    let most = groups.iter().filter(fits).map(named).max();
    let mut meant: Vec<Mesh> = Vec::new();
    for shape in groups
        .iter()
        .filter(|group| most.is_none() || fits(group) && Some(named(group)) == most)
        .flatten()
    {
        if !meant.contains(shape) {
            meant.push(shape.clone());
        }
    }
    meant
}

/// The multiple that sizes of a dimension are rounded to.
#[derive(Clone, Copy)]
struct Granule {
    /// The multiple that the brackets of the programs require on every mesh: other sizes are
    /// infeasible.
    asked: u64,
    /// A multiple that every mesh divides in any layout; larger sizes are multiples of it, so that
    /// all layouts exist at all of them.
    devices: u64,
}

fn granules(
    sources: &[Source],
    meshes: &[Vec<Mesh>],
    grid: &Grid,
    options: &Options,
) -> Vec<Granule> {
    let mut granules = vec![Granule { asked: 1, devices: 1 }; grid.dims.len()];
    for (source, shapes) in sources.iter().zip(meshes) {
        for mesh in shapes {
            let Some(program) = trial(source, mesh, grid, options) else { continue };
            for (granule, dim) in granules.iter_mut().zip(&grid.dims) {
                let Some(id) = program.dims.position(|other| other.name == dim.name) else {
                    continue;
                };
                granule.asked = common(granule.asked, asked(&program, id));
                granule.devices = common(granule.devices, program.mesh.devices());
            }
        }
    }
    granules
}

/// The program on `mesh`, with the swept dimensions as large as any split needs.
fn trial(source: &Source, mesh: &Mesh, grid: &Grid, options: &Options) -> Option<Analyzed> {
    let hardware = grid.hardware.first().or(options.hardware.as_ref()).cloned();
    let bare = Options { hardware, mesh: mesh.clone(), ..options.clone() };
    let large: u64 = mesh.iter().map(|axis| axis.size).product::<u64>().max(1) << 20;
    let dims =
        grid.dims.iter().map(|dim| DimSize { name: dim.name.clone(), size: large }).collect();
    check(&source.path, &source.text, &Options { dims, ..bare }).program
}

/// The largest split that some bracket of `program` asks of `dim`, common to all of them.
fn asked(program: &Program, dim: DimId) -> u64 {
    let declared_shardings = program
        .values
        .iter_enumerated()
        .filter_map(|(id, value)| Some((id, value.declared_sharding.as_ref()?)));
    let uses = program.ops.iter().flat_map(|op| {
        op.operands.iter().filter_map(|operand| Some((operand.value, operand.pin.as_ref()?)))
    });
    let outputs = program.outputs.iter().map(|output| (output.value, &output.pin));
    let split = |(value, pin): (ValueId, &Pin)| {
        let position = program.values[value].dims.iter().position(|&other| other == dim)?;
        let axes = pin.dims.get(position)?.named();
        Some(axes.iter().fold(1_u64, |n, axis| n.saturating_mul(axis.size(&program.mesh))))
    };
    declared_shardings.chain(uses).chain(outputs).filter_map(split).fold(1, common)
}

/// The least common multiple; saturating.
fn common(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a.max(1), b.max(1));
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a.max(1) / x).saturating_mul(b.max(1))
}

/// Every combination of sizes, the last dimension fastest.
fn sizes(granules: &[Granule], grid: &Grid) -> Vec<Vec<Size>> {
    let mut all: Vec<Vec<Size>> = vec![Vec::new()];
    for (dim, &granule) in grid.dims.iter().zip(granules) {
        let mut values = match &dim.sizes {
            Sizes::List(list) => list.clone(),
            Sizes::Range { from, to, points } => {
                series(*from, *to, *points).map(|size| rounded(size, granule)).collect()
            }
        };
        let mut seen = std::collections::BTreeSet::new();
        values.retain(|&size| seen.insert(size));
        let size = |size: u64| Size { dim: dim.name.clone(), size };
        all = all
            .iter()
            .flat_map(|sizes| {
                values.iter().map(move |&value| [sizes.as_slice(), &[size(value)]].concat())
            })
            .take(MOST + 1)
            .collect();
    }
    all
}

/// `points` sizes from `from` to `to`, each the same factor larger than the one before.
fn series(from: u64, to: u64, points: u64) -> impl Iterator<Item = f64> {
    let ratio = to as f64 / from as f64;
    let last = points.saturating_sub(1).max(1) as f64;
    (0..points).map(move |point| from as f64 * ratio.powf(point as f64 / last))
}

fn rounded(size: f64, granule: Granule) -> u64 {
    let step = if size >= granule.devices as f64 { granule.devices } else { granule.asked };
    ((size / step as f64).round() as u64).max(1).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_the_meshes_divide() {
        let granule = Granule { asked: 16, devices: 64 };
        assert_eq!([30.0, 65.0, 1000.0].map(|size| rounded(size, granule)), [32, 64, 1024]);
        assert_eq!(rounded(3.0, granule), 16);
        assert_eq!((common(4, 6), common(1, 7), common(u64::MAX, 2)), (12, 7, u64::MAX));
    }

    #[test]
    fn a_range_is_geometric_and_meets_its_ends() {
        let sizes: Vec<u64> = series(10, 1000, 3).map(|size| size.round() as u64).collect();
        assert_eq!(sizes, [10, 100, 1000]);
        assert_eq!(series(5, 9, 1).count(), 1);
    }
}
