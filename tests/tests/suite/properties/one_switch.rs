//! Axes that share networks share their ports: however the devices of a group are divided among
//! axes, its reshards take as long as along one axis of all of them, whatever plan is found; on one
//! switch, over nodes, and between nodes alone.

use proptest::prelude::prop_assert;
use proptest::strategy::Strategy as _;
use shardwise::{Options, Rates};
use shardwise_tests::planning::planned;
use shardwise_tests::random::{Dice, for_all, numbers};

const NODES: [&str; 6] = ["a100", "h100", "h200", "h800", "b300", "mi300x"];
const RACKS: [&str; 2] = ["gb200-nvl72", "gb300"];
const NAMES: [&str; 4] = ["X", "Y", "Z", "W"];

/// A reshard over all devices of a group, along one axis and along several.
#[derive(Clone, Debug)]
struct Case {
    chip: &'static str,
    rates: Rates,
    /// Words after the size of an axis.
    links: &'static str,
    sizes: Vec<u64>,
    /// The declarations, with `@` for the axes.
    from_and_to: String,
}

impl Case {
    fn new(numbers: &[u32]) -> Self {
        let mut dice = Dice::new(numbers);
        let place = Place::ALL[dice.roll(Place::ALL.len())];
        let chips: &[&str] = if place == Place::Rack { &RACKS } else { &NODES };
        let chip = chips[dice.roll(chips.len())];
        let rates = [Rates::Peak, Rates::Measured][dice.roll(2)];
        let sizes = place.sizes(&mut dice);
        let links = if place == Place::BetweenNodes { " ib" } else { "" };
        let rows = sizes.iter().product::<u64>() * (1 << dice.roll(12));
        let columns = sizes.iter().product::<u64>() * (1 << dice.roll(14));
        let shapes = [
            "input A[M_@, N]\noutput A[M, N]",
            "input A[M, N] {U_@}\noutput A[M_@, N]",
            "input A[M, N] {U_@}\noutput A[M, N]",
            "input A[M_@, N]\noutput A[M, N_@]",
        ];
        let shape = shapes[dice.roll(shapes.len())];
        Self {
            chip,
            rates,
            links,
            sizes,
            from_and_to: format!("dim M={rows}, N={columns}\n{shape}\n"),
        }
    }

    fn seconds(&self, axes: &[(&str, u64)]) -> f64 {
        let mesh: Vec<String> =
            axes.iter().map(|(name, size)| format!("{name}={size}{}", self.links)).collect();
        let names: Vec<&str> = axes.iter().map(|(name, _)| *name).collect();
        let body = self.from_and_to.replace('@', &format!("{{{}}}", names.join(",")));
        let source = format!("hardware {}\nmesh {}\n{body}", self.chip, mesh.join(", "));
        let (rates, memory) = (Some(self.rates), Some(f64::INFINITY));
        planned(&source, &Options { rates, memory, ..Options::default() }).report.serial_s
    }
}

/// Where the devices of a group are.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Node,
    Rack,
    Nodes,
    BetweenNodes,
}

impl Place {
    const ALL: [Self; 4] = [Self::Node, Self::Rack, Self::Nodes, Self::BetweenNodes];

    /// The sizes of axes that fill it, at least two where there are more than two devices.
    fn sizes(self, dice: &mut Dice) -> Vec<u64> {
        let mut left = match self {
            Self::Node => 8,
            Self::Rack => 72,
            Self::Nodes => 16 << dice.roll(3),
            Self::BetweenNodes => 2 << dice.roll(6),
        };
        let mut sizes = Vec::new();
        while left > 1 && sizes.len() + 1 < NAMES.len() {
            let divisors: Vec<u64> = (2..=left.min(8)).filter(|size| left % size == 0).collect();
            let size = divisors[dice.roll(divisors.len())];
            sizes.push(size);
            left /= size;
        }
        sizes.push(left);
        sizes.retain(|&size| size > 1);
        sizes
    }
}

#[test]
fn several_axes_take_as_long_as_one() {
    for_all(300, &numbers(16).prop_map(|numbers| Case::new(&numbers)), |case| {
        let several: Vec<(&str, u64)> = NAMES.into_iter().zip(case.sizes.iter().copied()).collect();
        let alone = case.seconds(&[("X", case.sizes.iter().product())]);
        let mixed = case.seconds(&several);
        prop_assert!((mixed / alone - 1.0).abs() < 1e-9, "{mixed} and {alone} s: {case:?}");
        Ok(())
    });
}
