//! Axes that share a switch share its port: dividing the devices of a switch among several axes
//! never makes a reshard cheaper than it is along one axis of all of them, whatever plan is found.
//!
//! At measured rates this is tested on nodes of eight. Their latency grows with the number of
//! devices, so that on a switch of 72 a reshard in two stages may truly be shorter than one stage.

use proptest::prelude::prop_assert;
use proptest::strategy::Strategy as _;
use shardwise::{Options, Rates};
use shardwise_tests::planning::planned;
use shardwise_tests::random::{Dice, for_all, numbers};

const NODES: [&str; 6] = ["a100", "h100", "h200", "h800", "b300", "mi300x"];
const RACKS: [&str; 2] = ["gb200-nvl72", "gb300"];
const NAMES: [&str; 4] = ["X", "Y", "Z", "W"];

/// A reshard over all devices of a switch, along one axis and along several.
#[derive(Clone, Debug)]
struct Case {
    chip: &'static str,
    rates: Rates,
    sizes: Vec<u64>,
    /// The declarations, with `@` for the axes.
    from_and_to: String,
}

impl Case {
    fn new(numbers: &[u32]) -> Self {
        let mut dice = Dice::new(numbers);
        let is_rack = dice.roll(3) == 0;
        let chip =
            if is_rack { RACKS[dice.roll(RACKS.len())] } else { NODES[dice.roll(NODES.len())] };
        let rates = if is_rack || dice.roll(2) == 0 { Rates::Peak } else { Rates::Measured };
        let mut left = if is_rack { 72 } else { 8 };
        let mut sizes = Vec::new();
        while sizes.len() < NAMES.len() {
            let most = left.min(6);
            let size = 2 + dice.roll(most as usize) as u64;
            if size > left {
                break;
            }
            sizes.push(size);
            left /= size;
        }
        let rows = sizes.iter().product::<u64>() * (1 << dice.roll(12));
        let columns = sizes.iter().product::<u64>() * (1 << dice.roll(14));
        let shapes = [
            "input A[M_@, N]\noutput A[M, N]",
            "input A[M, N] {U_@}\noutput A[M_@, N]",
            "input A[M, N] {U_@}\noutput A[M, N]",
            "input A[M_@, N]\noutput A[M, N_@]",
        ];
        let shape = shapes[dice.roll(shapes.len())];
        Self { chip, rates, sizes, from_and_to: format!("dim M={rows}, N={columns}\n{shape}\n") }
    }

    fn seconds(&self, axes: &[(&str, u64)]) -> f64 {
        let mesh: Vec<String> = axes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        let names: Vec<&str> = axes.iter().map(|(name, _)| *name).collect();
        let body = self.from_and_to.replace('@', &format!("{{{}}}", names.join(",")));
        let source = format!("hardware {}\nmesh {}\n{body}", self.chip, mesh.join(", "));
        let (rates, memory) = (Some(self.rates), Some(f64::INFINITY));
        planned(&source, &Options { rates, memory, ..Options::default() }).report.serial_s
    }
}

#[test]
fn several_axes_are_never_cheaper_than_one() {
    for_all(300, &numbers(16).prop_map(|numbers| Case::new(&numbers)), |case| {
        let several: Vec<(&str, u64)> = NAMES.into_iter().zip(case.sizes.iter().copied()).collect();
        let alone = case.seconds(&[("X", case.sizes.iter().product())]);
        let mixed = case.seconds(&several);
        prop_assert!(mixed >= alone * (1.0 - 1e-9), "{mixed} < {alone} s: {case:?}");
        Ok(())
    });
}
