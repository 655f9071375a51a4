//! Which devices communicate: devices are numbered in the order of the mesh, the first axis the
//! major one.

use super::super::json::{PlanJson, StepJson};

/// A device: its place along each axis of the mesh.
type Places = Vec<u64>;

/// The devices of a mesh.
pub(super) struct Devices<'p> {
    axes: Vec<&'p str>,
    sizes: Vec<u64>,
}

impl<'p> Devices<'p> {
    pub(super) fn of(plan: &'p PlanJson) -> Self {
        let axes = plan.mesh.iter().map(|axis| axis.axis.as_str()).collect();
        Self { axes, sizes: plan.mesh.iter().map(|axis| axis.size).collect() }
    }

    pub(super) fn count(&self) -> u64 {
        self.sizes.iter().product()
    }

    /// The product of the sizes of axes.
    pub(super) fn ways(&self, axes: &[String]) -> u64 {
        axes.iter().map(|axis| self.sizes[self.place(axis)]).product()
    }

    fn place(&self, axis: &str) -> usize {
        self.axes.iter().position(|other| *other == axis).unwrap_or(0)
    }

    /// How far apart neighbours along an axis are, and how many there are.
    pub(super) fn stride(&self, axis: &str) -> [u64; 2] {
        let place = self.place(axis);
        [self.sizes[place + 1..].iter().product(), self.sizes[place]]
    }

    fn places(&self, device: u64) -> Places {
        let one = |axis: &&str| {
            let [stride, size] = self.stride(axis);
            device / stride % size
        };
        self.axes.iter().map(one).collect()
    }

    /// The number of a block that a device has of a dimension split over axes.
    fn block(&self, device: &Places, axes: &[String]) -> u64 {
        axes.iter().fold(0, |block, axis| {
            let place = self.place(axis);
            block * self.sizes[place] + device[place]
        })
    }

    /// The groups of devices along axes, each in the order of these.
    pub(super) fn groups(&self, axes: &[String]) -> Vec<Vec<u64>> {
        let is_first = |device: &u64| self.block(&self.places(*device), axes) == 0;
        let member = |first: u64, block: u64| {
            let (mut rest, mut device) = (block, first);
            for axis in axes.iter().rev() {
                let [stride, size] = self.stride(axis);
                device += rest % size * stride;
                rest /= size;
            }
            device
        };
        let all = (0..self.count()).filter(is_first);
        all.map(|first| (0..self.ways(axes)).map(|block| member(first, block)).collect()).collect()
    }

    /// From each device along axes to the one so many further along, cyclically.
    pub(super) fn shifted(&self, axes: &[String], by: u64) -> Vec<[u64; 2]> {
        let count = self.ways(axes) as usize;
        let groups = self.groups(axes);
        let pairs = groups.iter().flat_map(|group| {
            (0..count).map(|place| [group[place], group[(place + by as usize) % count]])
        });
        pairs.collect()
    }

    /// From each device to the one that has its block after a step: within groups of the axes, the
    /// devices in the order of the blocks that they have before and after.
    pub(super) fn relabelled(&self, step: &StepJson, axes: &[String]) -> Vec<[u64; 2]> {
        let changed = || {
            step.operands[0]
                .dims
                .iter()
                .zip(&step.result.dims)
                .filter(|(before, now)| before != now)
        };
        let held = |device: u64| {
            let at = self.places(device);
            changed().map(|(before, _)| self.block(&at, &before.axes)).collect::<Vec<u64>>()
        };
        let wanted = |device: u64| {
            let at = self.places(device);
            changed().map(|(_, now)| self.block(&at, &now.axes)).collect::<Vec<u64>>()
        };
        let pairs = self.groups(axes).into_iter().flat_map(|group| {
            let (mut from, mut to) = (group.clone(), group);
            from.sort_by_key(|&device| held(device));
            to.sort_by_key(|&device| wanted(device));
            from.into_iter().zip(to).map(|(from, to)| [from, to])
        });
        pairs.collect()
    }
}
