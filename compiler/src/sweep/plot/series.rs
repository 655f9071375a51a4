//! The data of the plot: lines, and the winner at each size.

use indexmap::IndexMap;

use crate::sweep::{Outcome, Point, Swept};

/// One drawing: everything at one hardware and one choice of the dimensions that are not along its
/// axis.
pub(super) struct Panel {
    pub(super) title: String,
    /// The dimension along the axis.
    pub(super) dim: String,
    pub(super) series: Vec<Series>,
    /// Size and compute seconds of the winner.
    pub(super) compute: Vec<(f64, f64)>,
    winners: Vec<Winner>,
}

/// A program on a mesh shape.
pub(super) struct Series {
    pub(super) label: String,
    /// Size and busy seconds of the busiest axis.
    pub(super) links: Vec<(f64, f64)>,
    /// The colour's number, for series that are somewhere the best of their program.
    pub(super) rank: Option<usize>,
}

/// The best point of a size.
pub(super) struct Winner {
    size: f64,
    pub(super) series: usize,
    pub(super) by_compute: bool,
}

/// A range of sizes with the same winner.
pub(super) struct Stretch<T> {
    pub(super) of: T,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// The panels of a sweep over `dim`, in the order of its rows.
pub(super) fn panels(swept: &Swept, dim: &str) -> Vec<Panel> {
    let mut groups: IndexMap<String, Vec<&Point>> = IndexMap::new();
    for point in swept.points.iter().filter(|point| point.plan.is_some()) {
        let others = point
            .sizes
            .iter()
            .filter(|size| size.dim != dim)
            .map(|size| format!(", {}={}", size.dim, size.size));
        groups.entry(point.hardware.clone() + &others.collect::<String>()).or_default().push(point);
    }
    groups.into_iter().map(|(place, points)| panel(swept, &place, dim, &points)).collect()
}

fn panel(swept: &Swept, place: &str, dim: &str, points: &[&Point]) -> Panel {
    let names: indexmap::IndexSet<&str> =
        points.iter().map(|point| point.program.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let one_program = names.len() == 1;
    let title = format!("{}: {place} ({} plans)", names.join(", "), swept.strategy);
    let mut panel = Panel {
        title,
        dim: dim.to_owned(),
        series: Vec::new(),
        compute: Vec::new(),
        winners: Vec::new(),
    };
    let mut numbers: IndexMap<(&str, &str), usize> = IndexMap::new();
    for point in points {
        let Some(plan) = &point.plan else { continue };
        let size = size(point, dim);
        let number = *numbers.entry((&point.program, &point.mesh)).or_insert_with(|| {
            panel.series.push(Series {
                label: label(point, one_program),
                links: Vec::new(),
                rank: None,
            });
            panel.series.len() - 1
        });
        if plan.cost.links_s > 0.0 {
            panel.series[number].links.push((size, plan.cost.links_s));
        }
        if point.wins {
            panel.compute.push((size, plan.cost.compute_s));
            panel.winners.push(Winner {
                size,
                series: number,
                by_compute: plan.cost.links_s <= plan.cost.compute_s,
            });
        }
    }
    rank(&mut panel, points, &numbers, dim);
    panel
}

/// Numbers the series that are the best of their program at some size.
fn rank(panel: &mut Panel, points: &[&Point], numbers: &IndexMap<(&str, &str), usize>, dim: &str) {
    let mut best: IndexMap<(&str, u64), (&Outcome, usize)> = IndexMap::new();
    for point in points {
        let Some(plan) = &point.plan else { continue };
        let number = numbers[&(point.program.as_str(), point.mesh.as_str())];
        let held = best.entry((&point.program, size(point, dim) as u64)).or_insert((plan, number));
        if plan.cost.better_than(&held.0.cost) {
            *held = (plan, number);
        }
    }
    let mut ranks = 0;
    for number in 0..panel.series.len() {
        if best.values().any(|(_, best)| *best == number) {
            panel.series[number].rank = Some(ranks);
            ranks += 1;
        }
    }
}

fn size(point: &Point, dim: &str) -> f64 {
    point.sizes.iter().find(|size| size.dim == dim).map_or(1.0, |size| size.size as f64)
}

/// `mixed X=16 over 4x4, Y=4`, without the kinds of the axes.
pub(super) fn label(point: &Point, one_program: bool) -> String {
    let plain = |axis: &str| {
        axis.split(' ')
            .filter(|word| !["ring", "line", "switch", "dcn"].contains(word))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mesh = point.mesh.split(", ").map(plain).collect::<Vec<_>>().join(", ");
    if one_program { mesh } else { format!("{} {mesh}", point.program) }
}

impl Panel {
    /// From the smallest size to the largest.
    pub(super) fn x_range(&self) -> (f64, f64) {
        let sizes = self.winners.iter().map(|winner| winner.size);
        (sizes.clone().fold(f64::INFINITY, f64::min), sizes.fold(0.0, f64::max))
    }

    /// From a little below the shortest time to a little above the longest.
    pub(super) fn y_range(&self) -> (f64, f64) {
        let times = self
            .series
            .iter()
            .flat_map(|series| &series.links)
            .chain(&self.compute)
            .map(|&(_, seconds)| seconds)
            .filter(|&s| s > 0.0);
        let (low, high) = (times.clone().fold(f64::INFINITY, f64::min), times.fold(0.0, f64::max));
        if low > high { (1e-6, 1.0) } else { (low / 1.3, high * 1.3) }
    }

    /// Runs of winners that agree in `what`; each reaches half way to the next.
    pub(super) fn winners<T: PartialEq>(&self, what: impl Fn(&Winner) -> T) -> Vec<Stretch<T>> {
        let mut runs: Vec<Stretch<T>> = Vec::new();
        for (number, winner) in self.winners.iter().enumerate() {
            let of = what(winner);
            let next = self
                .winners
                .get(number + 1)
                .map_or(winner.size, |next| (winner.size * next.size).sqrt());
            let from = number
                .checked_sub(1)
                .map_or(winner.size, |before| (winner.size * self.winners[before].size).sqrt());
            match runs.last_mut() {
                Some(run) if run.of == of => run.to = next,
                _ => runs.push(Stretch { of, from, to: next }),
            }
        }
        runs
    }
}
