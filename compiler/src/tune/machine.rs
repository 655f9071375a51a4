//! The networks of a machine, and the meshes that a number of chips can form on them.
//!
//! A machine is a list of *networks*: on GPUs the network between nodes and the switch inside a
//! node, on TPUs the network between pods and the edges of the slice, which is the most cubic one.
//! A mesh axis takes a factor of each network; the factors of all axes multiply to the networks'
//! sizes. Shapes that differ in the order of their axes alone are one.
//!
//! Not in the space: meshes of GPUs in which more than one axis leaves the node, and of TPUs in
//! which more than one edge is divided between axes, since a part of a ring has no wraparound.

use std::collections::BTreeSet;

use shardwise_ir::hardware::{Hardware, Wraparound};

/// Factors of each network, in their order.
type Factors = Vec<u64>;

/// A network with the number of its participants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    size: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Between nodes of GPUs.
    Nodes,
    /// Inside a node.
    Node,
    /// Between pods.
    Pods,
    /// An edge of a torus.
    Edge,
}

/// The networks that some chips are joined by.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    networks: Vec<Network>,
}

/// An axis of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct MeshAxis {
    /// Its name.
    pub(super) name: String,
    /// Devices along it.
    pub(super) size: u64,
    /// As a program declares it: `X=64 ib`.
    pub(super) text: String,
}

/// A mesh, and its axis of stages among the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Shape {
    /// The axes, the stages first.
    pub(super) axes: Vec<MeshAxis>,
    /// Stages; 1 for none.
    pub(super) stages: u64,
}

impl Shape {
    /// The mesh of one device, with the axes that the program names.
    pub(super) fn of_one_device(names: &[String]) -> Self {
        let unnamed = [fresh(&[], 0)];
        let names = if names.is_empty() { &unnamed } else { names };
        let one =
            |name: &String| MeshAxis { name: name.clone(), size: 1, text: format!("{name}=1") };
        Self { axes: names.iter().map(one).collect(), stages: 1 }
    }
}

/// The name of the axis of stages.
const STAGES: &str = "P";

/// The name of an axis by its number among those that the program does not name.
fn fresh(taken: &[String], number: usize) -> String {
    let names = ["X", "Y", "Z", "W", "V", "U2"].map(str::to_owned);
    let mut free = names.into_iter().filter(|name| !taken.contains(name));
    free.nth(number).unwrap_or_else(|| format!("A{number}"))
}

impl Machine {
    /// The networks of `chips` chips; an error says which numbers there are.
    pub(super) fn new(hardware: &Hardware, chips: u64) -> Result<Self, String> {
        let of = |size, kind| Network { size, kind };
        if hardware.wraparound == Wraparound::Switched {
            let node = hardware.nvlink_domain().unwrap_or(chips);
            let inside = (1..=node.min(chips)).rev().find(|size| chips.is_multiple_of(*size));
            let inside = inside.unwrap_or(1);
            return Ok(Self {
                networks: vec![of(chips / inside, Kind::Nodes), of(inside, Kind::Node)],
            });
        }
        let pod: u64 = hardware.pod.iter().product::<u64>().max(1);
        let pods = if hardware.pod.is_empty() { 1 } else { chips.div_ceil(pod) };
        let edges = chips.is_multiple_of(pods).then(|| slice(hardware, chips / pods)).flatten();
        let edges = edges.ok_or_else(|| no_slice(hardware, chips))?;
        let edges = edges.into_iter().map(|size| of(size, Kind::Edge));
        Ok(Self { networks: [of(pods, Kind::Pods)].into_iter().chain(edges).collect() })
    }

    /// Every shape: of the axes that the program names, and of others; with so many stages, and at
    /// most so many axes beside theirs.
    pub(super) fn shapes(
        &self,
        named: &[String],
        stages: &[u64],
        most_axes: impl Fn(u64) -> usize,
    ) -> Result<Vec<Shape>, String> {
        let most = most_axes(1);
        if named.len() > most {
            return Err(format!(
                "the program names {} axes ({}), more than the {most} of --axes; write --axes {}",
                named.len(),
                named.join(", "),
                named.len()
            ));
        }
        let mut shapes = BTreeSet::new();
        for &stages in stages {
            let Some(rest) = self.without_stages(stages) else { continue };
            for factors in rest.meshes(most_axes(stages)) {
                self.named(&factors, named, stages, &mut shapes);
            }
        }
        Ok(shapes.into_iter().collect())
    }

    /// The numbers of stages that some mesh has.
    pub(super) fn possible_stages(&self) -> Vec<u64> {
        let most = self.networks.iter().map(|network| network.size).max().unwrap_or(1);
        (1..=most).filter(|&stages| self.without_stages(stages).is_some()).collect()
    }

    /// What remains for other axes beside that of `stages`, which is on the slowest network.
    fn without_stages(&self, stages: u64) -> Option<Self> {
        let mut rest = self.clone();
        let slowest = rest.networks.iter().position(|network| network.size > 1);
        if stages > 1 {
            let network = &mut rest.networks[slowest?];
            network.size = network.size.is_multiple_of(stages).then(|| network.size / stages)?;
        }
        Some(rest)
    }

    /// All multisets of at most `most` axes, each as its factors; the largest axis first.
    fn meshes(&self, most: usize) -> BTreeSet<Vec<Factors>> {
        let mut all: BTreeSet<Vec<Factors>> = [vec![Vec::new(); most]].into();
        for network in &self.networks {
            let parts = factorisations(network.size, most);
            all = all
                .iter()
                .flat_map(|mesh| parts.iter().map(move |parts| extended(mesh, parts)))
                .collect();
        }
        let sorted = all.into_iter().filter(|mesh| self.is_in_space(mesh)).map(|mut mesh| {
            mesh.retain(|axis| axis.iter().product::<u64>() > 1);
            mesh.sort_by(|a, b| b.cmp(a));
            mesh
        });
        sorted.collect()
    }

    fn is_in_space(&self, mesh: &[Factors]) -> bool {
        let several = |axis: &&Factors| axis.iter().filter(|&&factor| factor > 1).count() > 1;
        let mixed = mesh.iter().filter(several).count();
        let on = |kind: Kind| self.networks.iter().position(|network| network.kind == kind);
        if on(Kind::Node).is_some() {
            return mixed <= 1;
        }
        let pods = on(Kind::Pods).unwrap_or(0);
        let over_pods = mesh.iter().filter(|axis| axis[pods] > 1).filter(several).count();
        let divided = (0..self.networks.len()).filter(|&network| {
            self.networks[network].kind == Kind::Edge
                && mesh.iter().filter(|axis| axis[network] > 1).count() > 1
        });
        over_pods == 0 && divided.count() <= 1
    }

    /// The shapes of a multiset of axes: one for each way to give them the program's names.
    fn named(
        &self,
        factors: &[Factors],
        named: &[String],
        stages: u64,
        shapes: &mut BTreeSet<Shape>,
    ) {
        let one = vec![1; self.networks.len()];
        let padded: Vec<&Factors> =
            factors.iter().chain(std::iter::repeat_n(&one, named.len())).collect();
        for order in arrangements(padded.len(), named.len()) {
            let rest = (0..factors.len()).filter(|axis| !order.contains(axis));
            let pinned = order.iter().zip(named).map(|(&axis, name)| self.axis(name, padded[axis]));
            let others = rest
                .enumerate()
                .map(|(number, axis)| self.axis(&fresh(named, number), &factors[axis]));
            let stage = (stages > 1).then(|| self.stage_axis(stages));
            let axes = stage.into_iter().chain(pinned).chain(others).collect::<Vec<_>>();
            let axes = if axes.is_empty() { Shape::of_one_device(named).axes } else { axes };
            shapes.insert(Shape { axes, stages });
        }
    }

    fn stage_axis(&self, stages: u64) -> MeshAxis {
        let slowest = self.networks.iter().position(|network| network.size > 1).unwrap_or(0);
        let factors: Factors =
            (0..self.networks.len()).map(|i| if i == slowest { stages } else { 1 }).collect();
        self.axis(STAGES, &factors)
    }

    /// The axis with its kind and fold.
    fn axis(&self, name: &str, factors: &Factors) -> MeshAxis {
        let size: u64 = factors.iter().product();
        let used: Vec<(u64, Kind)> = factors
            .iter()
            .zip(&self.networks)
            .filter(|(factor, _)| **factor > 1)
            .map(|(&factor, network)| (factor, network.kind))
            .collect();
        let suffix = match used[..] {
            [] | [(_, Kind::Edge)] => String::new(),
            [(_, Kind::Nodes)] => " ib".to_owned(),
            [(_, Kind::Node)] => " nvlink".to_owned(),
            [(_, Kind::Pods)] => " dcn".to_owned(),
            _ => {
                let parts: Vec<String> = used.iter().map(|(size, _)| size.to_string()).collect();
                format!(" over {}", parts.join("x"))
            }
        };
        MeshAxis { name: name.to_owned(), size, text: format!("{name}={size}{suffix}") }
    }
}

fn extended(mesh: &[Factors], parts: &[u64]) -> Vec<Factors> {
    mesh.iter().zip(parts).map(|(axis, &part)| [axis.as_slice(), &[part]].concat()).collect()
}

/// All ways to write `total` as a product of `count` positive numbers, in order.
fn factorisations(total: u64, count: usize) -> Vec<Factors> {
    if count == 0 {
        return if total == 1 { vec![Vec::new()] } else { Vec::new() };
    }
    let divisors = (1..=total).filter(|divisor| total.is_multiple_of(*divisor));
    let all = divisors.flat_map(|first| {
        factorisations(total / first, count - 1)
            .into_iter()
            .map(move |rest| [&[first], rest.as_slice()].concat())
    });
    all.collect()
}

/// Ordered choices of `count` of `of` things.
fn arrangements(of: usize, count: usize) -> Vec<Vec<usize>> {
    (0..count).fold(vec![Vec::new()], |all, _| {
        let longer = |chosen: &Vec<usize>| {
            let free = (0..of).filter(|next| !chosen.contains(next));
            free.map(|next| [chosen.as_slice(), &[next]].concat()).collect::<Vec<_>>()
        };
        all.iter().flat_map(longer).collect()
    })
}

/// The edges of the most cubic slice of so many chips that a pod has, the longest first.
fn slice(hardware: &Hardware, chips: u64) -> Option<Factors> {
    let mut pod = hardware.pod.clone();
    pod.sort_unstable_by(|a, b| b.cmp(a));
    let dims = if pod.is_empty() { 3 } else { pod.len() };
    let fits = |edges: &Factors| pod.is_empty() || edges.iter().zip(&pod).all(|(a, b)| a <= b);
    let sorted = |edges: &Factors| edges.windows(2).all(|pair| pair[0] >= pair[1]);
    let wraps = |edges: &Factors| {
        hardware.wraparound == Wraparound::Cube4 && edges.iter().all(|edge| edge % 4 == 0)
    };
    let all = factorisations(chips, dims).into_iter().filter(|edges| sorted(edges) && fits(edges));
    all.min_by_key(|edges| (!wraps(edges), edges.iter().sum::<u64>(), edges.clone()))
}

fn no_slice(hardware: &Hardware, chips: u64) -> String {
    // A slice is a part of a pod.
    let most = hardware.pod.iter().fold(1, |most: u64, edge| most.saturating_mul(*edge));
    let near = (1..=most.min(chips - 1)).rev().find(|&fewer| slice(hardware, fewer).is_some());
    let near = near.map_or_else(String::new, |near| format!("; write --chips {near}"));
    format!("`{}` has no slice of {chips} chips{near}", hardware.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(hardware: &str, chips: u64, axes: usize, named: &[&str]) -> Vec<String> {
        let hardware = Hardware::preset(hardware).expect("a preset");
        let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
        let machine = Machine::new(&hardware, chips).expect("there is such a machine");
        let shapes = machine.shapes(&named, &[1], |_| axes).expect("there are shapes");
        let devices = |shape: &Shape| shape.axes.iter().map(|axis| axis.size).product::<u64>();
        assert!(shapes.iter().all(|shape| devices(shape) == chips));
        let text = |shape: &Shape| {
            shape.axes.iter().map(|axis| axis.text.clone()).collect::<Vec<_>>().join(", ")
        };
        shapes.iter().map(text).collect()
    }

    #[test]
    fn shapes_of_two_nodes() {
        let expected = [
            "X=2 ib, Y=8 nvlink",
            "X=4 over 2x2, Y=4 nvlink",
            "X=8 over 2x4, Y=2 nvlink",
            "X=16 over 2x8",
        ];
        assert_eq!(shapes("h100", 16, 2, &[]), expected);
        assert_eq!(shapes("h100", 8, 1, &[]), ["X=8 nvlink"]);
    }

    #[test]
    fn named_axes_are_distinct_and_may_have_one_device() {
        assert_eq!(shapes("h100", 2, 1, &["T"]), ["T=1, X=2 nvlink", "T=2 nvlink"]);
        assert_eq!(shapes("h100", 2, 2, &["T"]), ["T=1, X=2 nvlink", "T=2 nvlink"]);
        // Axes of the program, or others in their place: 1 and 4, 2 and 2, 4 and 1, each of 1 and 2
        // beside X=2, X=4, or X=2 and Y=2.
        assert_eq!(shapes("h100", 4, 2, &["A", "B"]).len(), 7);
    }

    #[test]
    fn slices_of_a_torus_are_cubic() {
        assert_eq!(shapes("tpu-v5p", 64, 1, &[]), ["X=64 over 4x4x4"]);
        assert!(shapes("tpu-v5p", 64, 2, &[]).contains(&"X=16 over 4x4, Y=4".to_owned()));
        let hardware = Hardware::preset("tpu-v5e").expect("a preset");
        assert!(Machine::new(&hardware, 257).is_err());
        // At once, though it is far from the next slice.
        let hardware = Hardware::preset("tpu-v5p").expect("a preset");
        let refused = Machine::new(&hardware, 1 << 20).expect_err("more than a pod");
        assert!(refused.ends_with("write --chips 8960"), "{refused}");
    }
}
