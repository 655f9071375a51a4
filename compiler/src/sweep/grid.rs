//! The grid of a sweep, parsed from options: `X*Y=64`, `X=4|8|16`, `X*Y=64 over 4x4x4`,
//! `B=1e4..1e7/40`, `B=1024|4096`.

use std::collections::{BTreeMap, BTreeSet};

use crate::options::AxisSize;
use crate::options::sizes::{
    assignment, distinct, items, not_understood, size, with_fold, with_kind,
};
use crate::source::oneliner::Setting;

/// The axes of a sweep; empty ones keep the value of the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// Mesh shapes, grouped by the option that gave them.
    pub meshes: Vec<Vec<Mesh>>,
    /// Dimensions and their sizes.
    pub dims: Vec<DimSizes>,
    /// Hardware by name.
    pub hardware: Vec<String>,
}

/// A mesh shape: sizes of some or all axes.
pub type Mesh = Vec<AxisSize>;

/// A dimension and the sizes it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct DimSizes {
    /// The dimension.
    pub name: String,
    /// Its sizes.
    pub sizes: Sizes,
}

/// Sizes of a dimension.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// These.
    List(Vec<u64>),
    /// A geometric series, rounded to sizes that the meshes divide.
    Range {
        /// The smallest.
        from: u64,
        /// The largest.
        to: u64,
        /// How many.
        points: u64,
    },
}

/// The number of sizes of a range by default.
const POINTS: u64 = 16;
/// The limit of shapes or sizes.
const MOST: usize = 10_000;

impl Grid {
    /// Reads the options: each `mesh` is a set of shapes, each of `dims` and `hardware` a
    /// comma-separated list.
    ///
    /// # Errors
    ///
    /// A sentence with what to write: text that is no shape, size or chip, a name that stands
    /// twice, or more shapes or sizes than a sweep has.
    ///
    /// ```
    /// let (meshes, sizes) = (["X*Y=64".into()], ["B=1e4..1e7".into()]);
    /// let grid = shardwise::sweep::Grid::parse(&meshes, &sizes, &["tpu-v5p,tpu-v5e".into()])?;
    /// assert_eq!((grid.meshes[0].len(), grid.hardware.len()), (7, 2));
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(meshes: &[String], dims: &[String], hardware: &[String]) -> Result<Self, String> {
        let meshes = meshes.iter().map(|text| shapes(text)).collect::<Result<_, _>>()?;
        let dims: Vec<DimSizes> =
            dims.iter().flat_map(|text| items(text)).map(dim).collect::<Result<_, _>>()?;
        let dims = distinct(dims, |dim| &dim.name)?;
        let hardware: Vec<String> =
            hardware.iter().flat_map(|text| items(text)).map(str::to_owned).collect();
        if hardware.iter().any(String::is_empty) {
            return Err(not_understood("", "chips such as tpu-v5p,tpu-v5e"));
        }
        Ok(Self { meshes, dims, hardware: distinct(hardware, |name: &String| name)? })
    }

    /// The first point of the grid, as what a program of one line declares.
    pub fn first(&self) -> Setting {
        let shapes = self.meshes.iter().filter_map(|shapes| shapes.first());
        let axes: BTreeMap<&str, u64> =
            shapes.flatten().rev().map(|axis| (axis.name.as_str(), axis.size)).collect();
        let dims = self.dims.iter().map(|dim| match &dim.sizes {
            Sizes::List(sizes) => (dim.name.as_str(), sizes[0]),
            Sizes::Range { from, .. } => (dim.name.as_str(), *from),
        });
        Setting {
            hardware: self.hardware.first().cloned(),
            mesh: declared(axes.into_iter()),
            dims: declared(dims),
        }
    }
}

/// `X=4,Y=2`; none if there are no sizes.
fn declared<'a>(sizes: impl Iterator<Item = (&'a str, u64)>) -> Option<String> {
    let sizes: Vec<String> = sizes.map(|(name, size)| format!("{name}={size}")).collect();
    (!sizes.is_empty()).then(|| sizes.join(","))
}

/// The shapes of one `--mesh`: every combination of its items.
fn shapes(text: &str) -> Result<Vec<Mesh>, String> {
    let mut shapes: Vec<Mesh> = vec![Vec::new()];
    for item in items(text) {
        let choices = choices(item)?;
        let combined = shapes.iter().flat_map(|shape| {
            choices.iter().map(move |choice| [shape.clone(), choice.clone()].concat())
        });
        shapes = combined.take(MOST + 1).collect();
        if shapes.len() > MOST {
            return Err(format!("`{text}` has more than {MOST} mesh shapes; fix some of the axes"));
        }
    }
    for shape in &shapes {
        distinct(shape.iter().collect(), |axis: &&AxisSize| &axis.name)?;
    }
    Ok(shapes)
}

/// The alternatives of one item: `X=4|8`, `X*Y=64`, `X*Y=64 over 4x4x4`.
fn choices(item: &str) -> Result<Vec<Mesh>, String> {
    const WANTED: &str = "mesh shapes such as X=4,Y=16, X=4|8 or X*Y=64";
    let (names, value) = assignment(item).ok_or_else(|| not_understood(item, WANTED))?;
    let names: Vec<&str> = names.split('*').map(str::trim).collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(not_understood(item, WANTED));
    }
    let (value, kind) = with_kind(value);
    let (value, over) = with_fold(value)?;
    let sizes: Vec<u64> =
        value.split('|').map(|text| size(item, text)).collect::<Result<_, _>>()?;
    let axis = |name: &str, size: u64, over: Option<Vec<u64>>| AxisSize {
        over,
        kind,
        ..AxisSize::new(name, size)
    };
    if let [name] = names[..] {
        return Ok(sizes.into_iter().map(|size| vec![axis(name, size, over.clone())]).collect());
    }
    let mut shapes = Vec::new();
    for total in sizes {
        match &over {
            None => shapes.extend(factorisations(total, names.len())?.into_iter().map(|factors| {
                names.iter().zip(factors).map(|(name, size)| axis(name, size, None)).collect()
            })),
            Some(physical)
                if physical.iter().try_fold(1_u64, |n, &size| n.checked_mul(size))
                    == Some(total) =>
            {
                shapes.extend(deals(physical, names.len())?.into_iter().map(|parts| {
                    names
                        .iter()
                        .zip(parts)
                        .map(|(name, part)| axis(name, part.iter().product(), Some(folded(part))))
                        .collect()
                }));
            }
            Some(_) => {
                return Err(format!(
                    "the factors after `over` in `{item}` do not multiply to {total}; write \
                        X*Y=64 over 4x4x4"
                ));
            }
        }
    }
    Ok(shapes)
}

/// The text after `over`: the factors; an error if there is only one (a single number could be
/// taken for a count).
fn folded(part: Vec<u64>) -> Vec<u64> {
    if part.len() < 2 { vec![1] } else { part }
}

/// All ways to write `total` as a product of `count` positive numbers, in order.
fn factorisations(total: u64, count: usize) -> Result<Vec<Vec<u64>>, String> {
    let divisors = divisors(total);
    let mut found: Vec<(u64, Vec<u64>)> = vec![(total, Vec::new())];
    for _ in 1..count {
        found = found
            .iter()
            .flat_map(|(left, factors)| {
                let next = divisors.iter().filter(move |&&divisor| left.is_multiple_of(divisor));
                next.map(move |&divisor| {
                    (left / divisor, [factors.as_slice(), &[divisor]].concat())
                })
            })
            .take(MOST + 1)
            .collect();
        if found.len() > MOST {
            return Err(format!(
                "{total} has more than {MOST} factorisations into {count} axes; fix some of the \
                    axes"
            ));
        }
    }
    Ok(found.into_iter().map(|(left, factors)| [factors, vec![left]].concat()).collect())
}

fn divisors(total: u64) -> Vec<u64> {
    let small: Vec<u64> =
        (1..=total.isqrt().min(1 << 24)).filter(|divisor| total.is_multiple_of(*divisor)).collect();
    let all: BTreeSet<u64> = small.iter().flat_map(|&divisor| [divisor, total / divisor]).collect();
    all.into_iter().collect()
}

/// All ways to assign physical axes to `count` mesh axes; equal physical axes are interchangeable.
fn deals(physical: &[u64], count: usize) -> Result<Vec<Vec<Vec<u64>>>, String> {
    let mut sorted = physical.to_vec();
    sorted.sort_unstable();
    let mut found: BTreeSet<Vec<Vec<u64>>> = BTreeSet::from([vec![Vec::new(); count]]);
    for &size in &sorted {
        let give = |deal: &Vec<Vec<u64>>, to: usize| {
            let mut deal = deal.clone();
            deal[to].push(size);
            deal
        };
        found = found.iter().flat_map(|deal| (0..count).map(move |to| give(deal, to))).collect();
        if found.len() > MOST {
            return Err(format!(
                "more than {MOST} ways to deal {} physical axes to {count}; fix some of the axes",
                physical.len()
            ));
        }
    }
    Ok(found.into_iter().collect())
}

/// `B=1024`, `B=1024|4096`, `B=1e4..1e7`, `B=1e4..1e7/40`.
fn dim(item: &str) -> Result<DimSizes, String> {
    const WANTED: &str = "sizes such as B=1024|4096 or B=1e4..1e7/40";
    let (name, value) = assignment(item).ok_or_else(|| not_understood(item, WANTED))?;
    let Some((from, to)) = value.split_once("..") else {
        let list = value.split('|').map(|text| size(item, text)).collect::<Result<_, _>>()?;
        return Ok(DimSizes { name: name.to_owned(), sizes: Sizes::List(list) });
    };
    let (to, points) = match to.split_once('/') {
        None => (to, POINTS),
        Some((to, points)) => (to, size(item, points)?),
    };
    let (from, to) = (size(item, from)?, size(item, to)?);
    if from > to || points > MOST as u64 {
        return Err(format!(
            "`{item}` is no range; write the smaller size first and at most {MOST} points, such as \
                B=1e4..1e7/40"
        ));
    }
    Ok(DimSizes { name: name.to_owned(), sizes: Sizes::Range { from, to, points } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<Vec<u64>> {
        shapes(text)
            .unwrap_or_default()
            .iter()
            .map(|mesh| mesh.iter().map(|axis| axis.size).collect())
            .collect()
    }

    #[test]
    fn a_product_gives_every_factorisation() {
        assert_eq!(sizes("X*Y=6"), [[1, 6], [2, 3], [3, 2], [6, 1]]);
        assert_eq!(sizes("X*Y*Z=4096").len(), 91);
        assert_eq!(sizes("X=2|4,Y=3"), [[2, 3], [4, 3]]);
    }

    #[test]
    fn physical_axes_are_dealt_whole() {
        assert_eq!(sizes("X*Y=64 over 4x4x4").len(), 4);
        assert_eq!(shapes("X*Y=8 over 2x4").map(|shapes| shapes.len()), Ok(4));
        assert!(shapes("X*Y=8 over 4x4").is_err());
    }

    #[test]
    fn nonsense_is_answered_with_what_to_type() {
        for text in ["", "X", "X*=4", "X=0", "X=4..8", "X=4,X=8", "=4", "X*Y=18446744073709551616"]
        {
            assert!(shapes(text).is_err(), "{text}");
        }
        for text in ["B", "B=4..2", "B=1..x", "B=1..2/0", "B=1.5"] {
            assert!(dim(text).is_err(), "{text}");
        }
    }
}
