//! All shardings of a value, and the least time from any to any other: single steps, and Floyd and
//! Warshall over them.

use shardwise_ir::ids::{AxisId, DimId, ValueId};
use shardwise_ir::mesh::{Axis, AxisKind};
use shardwise_ir::sharding::Reduction;

use super::{Brute, Space, State};

impl Brute<'_> {
    pub(super) fn states(&self, dims: &[DimId]) -> Vec<State> {
        let mut all = vec![(vec![Vec::new(); dims.len()], Vec::new())];
        for axis in 0..self.axes() {
            let mut next = all.clone();
            for (lists, pending) in &all {
                let mut unreduced = pending.clone();
                unreduced.push(axis);
                next.push((lists.clone(), unreduced));
                for dim in 0..dims.len() {
                    for place in 0..=lists[dim].len() {
                        let mut lists = lists.clone();
                        lists[dim].insert(place, axis);
                        next.push((lists, pending.clone()));
                    }
                }
            }
            all = next;
        }
        all.retain(|(lists, _)| lists.iter().zip(dims).all(|(axes, &dim)| self.divides(dim, axes)));
        all
    }

    pub(super) fn space(&self, value: ValueId) -> Space {
        let states = self.states(&self.program.values[value].dims);
        let n = states.len();
        let mut distance = vec![vec![f64::INFINITY; n]; n];
        for (i, from) in states.iter().enumerate() {
            for (j, to) in states.iter().enumerate() {
                distance[i][j] = if i == j { 0.0 } else { self.step(value, from, to) };
            }
        }
        for via in 0..n {
            for i in 0..n {
                for j in 0..n {
                    let through = distance[i][via] + distance[via][j];
                    if through < distance[i][j] {
                        distance[i][j] = through;
                    }
                }
            }
        }
        Space {
            number: states.into_iter().enumerate().map(|(i, state)| (state, i)).collect(),
            distance,
        }
    }

    /// The time of the one step between two states; infinite if there is none.
    pub(super) fn step(&self, value: ValueId, from: &State, to: &State) -> f64 {
        let (held, given) = (self.bytes(value, from), self.bytes(value, to));
        let kept: Vec<bool> = from.0.iter().zip(&to.0).map(|(a, b)| a == b).collect();
        let shrunk = from.0.iter().zip(&to.0).all(|(a, b)| a.starts_with(b));
        let grown = from.0.iter().zip(&to.0).all(|(a, b)| b.starts_with(a));
        let flat = |lists: &[Vec<usize>]| lists.iter().flatten().copied().collect::<Vec<_>>();
        let minus = |a: &[usize], b: &[usize]| {
            a.iter().copied().filter(|x| !b.contains(x)).collect::<Vec<_>>()
        };
        let minus_each = |a: &[Vec<usize>], b: &[Vec<usize>]| -> Vec<usize> {
            a.iter().zip(b).flat_map(|(a, b)| minus(a, b)).collect()
        };
        let sorted = |mut axes: Vec<usize>| {
            axes.sort_unstable();
            axes
        };
        let mut best = f64::INFINITY;
        if from.1 == to.1 {
            if shrunk {
                best = best.min(self.gather(&minus(&flat(&from.0), &flat(&to.0)), given));
            }
            let added = minus(&flat(&to.0), &flat(&from.0));
            if grown && added.len() == 1 && !from.1.contains(&added[0]) {
                best = 0.0;
            }
            // Dimensions drop axes from their ends, or get the axes of others appended, and axes
            // that nothing uses, by which each device first cuts its block.
            let lost = minus_each(&from.0, &to.0);
            let sliced = minus(&added, &from.1);
            let gained = minus(&minus_each(&to.0, &from.0), &sliced);
            let moved = sorted(lost.clone()) == sorted(gained);
            let apart = from.0.iter().zip(&to.0).all(|(a, b)| a.starts_with(b) || b.starts_with(a));
            if moved && apart && !lost.is_empty() {
                best = best.min(self.all_to_all(&lost, held / self.parts(&sliced) as f64));
            }
            let changed: Vec<usize> = (0..kept.len()).filter(|&i| !kept[i]).collect();
            if from.0.iter().zip(&to.0).all(|(a, b)| self.parts(a) == self.parts(b)) {
                let mut axes: Vec<usize> = changed
                    .iter()
                    .flat_map(|&i| from.0[i].iter().chain(&to.0[i]).copied())
                    .collect();
                axes.sort_unstable();
                axes.dedup();
                best = best.min(self.permute(&axes, held));
            }
        } else if to.1.iter().all(|axis| from.1.contains(axis)) {
            let reduced = minus(&from.1, &to.1);
            if from.0 == to.0 {
                best = best.min(2.0 * self.gather(&reduced, held));
            }
            // What else dimensions get, no one uses: each device first cuts its block by that.
            let added = minus(&flat(&to.0), &flat(&from.0));
            let sliced = minus(&added, &from.1);
            if grown && sorted(minus(&added, &sliced)) == sorted(reduced.clone()) {
                best = best.min(self.gather(&reduced, held / self.parts(&sliced) as f64));
            }
        } else if from.0 == to.0
            && from.1.iter().all(|axis| to.1.contains(axis))
            && self.kind(value) == Reduction::Sum
        {
            // One device keeps the value, the others have zeros.
            best = 0.0;
        }
        best
    }

    /// Devices, kind, bandwidth and time of a hop along each of `axes`; both parts of an axis are
    /// that axis.
    fn links(&self, axes: &[usize]) -> Vec<(f64, AxisKind, f64, f64)> {
        let figures = |axis: &Axis| (axis.size as f64, axis.kind(), axis.bandwidth(), axis.hop_s());
        let of = |&number: &usize| {
            let axis = AxisId::new(number);
            let Some(in_parts) = self.program.mesh.whole_of(axis) else {
                return Some(figures(&self.program.mesh.axes[axis]));
            };
            let [major, minor] = [0, 1].map(|part| in_parts.first.index() + part);
            let (n, kind, w, hop_s) = figures(&in_parts.whole);
            let stride = self.size(minor) as f64;
            match (axes.contains(&major), axes.contains(&minor)) {
                (true, true) => (number == major).then_some((n, kind, w, hop_s)),
                // As many groups as the stride share the links, once around.
                (true, false) => Some((n / stride, kind, w / stride, hop_s * stride)),
                _ => Some((stride, AxisKind::Line, w, hop_s)),
            }
        };
        axes.iter().filter_map(of).collect()
    }

    /// The devices along `axes` on one switch, with the bandwidth of a port and the time of a hop;
    /// `None` on rings and lines.
    fn switch(&self, axes: &[usize]) -> Option<(f64, f64, f64)> {
        let links = |&axis: &usize| &self.program.mesh.axes[AxisId::new(axis)];
        let first = links(axes.first()?);
        let n: u64 = axes.iter().map(|&axis| self.size(axis)).product();
        (first.kind() == AxisKind::Switch).then_some((n as f64, first.bandwidth(), first.hop_s()))
    }

    /// Through a switch a device sends or receives all of `bytes` but its own share; `None` on
    /// rings and lines.
    fn all_but_own(&self, axes: &[usize], bytes: f64) -> Option<f64> {
        let (n, port, hop_s) = self.switch(axes)?;
        Some((bytes * (n - 1.0) / n / port).max(hop_s))
    }

    fn latency(&self, axes: &[usize]) -> f64 {
        let hops = |(n, kind, _, hop): (f64, AxisKind, f64, f64)| match kind {
            AxisKind::Ring => hop * n / 2.0,
            AxisKind::Line => hop * (n - 1.0),
            AxisKind::Switch | AxisKind::Dcn => hop,
        };
        self.links(axes).into_iter().map(hops).sum()
    }

    fn gather(&self, axes: &[usize], bytes: f64) -> f64 {
        if let Some(seconds) = self.all_but_own(axes, bytes) {
            return seconds;
        }
        let links = self.links(axes);
        let bandwidth: f64 = links
            .iter()
            .map(|&(_, kind, w, _)| if kind == AxisKind::Ring { 2.0 * w } else { w })
            .sum();
        let n: f64 = links.iter().map(|link| link.0).product();
        let factor =
            if links.iter().any(|link| link.1 == AxisKind::Ring) { 1.0 } else { (n - 1.0) / n };
        (bytes * factor / bandwidth).max(self.latency(axes))
    }

    fn farthest(&self, axes: &[usize]) -> f64 {
        let links = self.links(axes);
        let reach = links
            .iter()
            .map(|&(n, kind, ..)| if kind == AxisKind::Ring { n } else { 2.0 * n })
            .fold(0.0, f64::max);
        reach / links.iter().map(|link| link.2).fold(f64::INFINITY, f64::min)
    }

    fn all_to_all(&self, axes: &[usize], bytes: f64) -> f64 {
        if let Some(seconds) = self.all_but_own(axes, bytes) {
            return seconds;
        }
        (bytes * self.farthest(axes) / 8.0).max(self.latency(axes))
    }

    fn permute(&self, axes: &[usize], bytes: f64) -> f64 {
        if let Some((_, port, hop_s)) = self.switch(axes) {
            return (bytes / port).max(hop_s);
        }
        (bytes * self.farthest(axes) / 4.0).max(self.latency(axes))
    }
}
