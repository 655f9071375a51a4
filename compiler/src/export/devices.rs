//! Which devices communicate: devices are numbered in the order of the mesh, the first axis the
//! major one.

use super::json::{PlanJson, StepJson};

/// A device: its place along each axis of the mesh.
type Places = Vec<u64>;

/// The devices of a mesh.
pub(in crate::export) struct Devices<'p> {
    axes: Vec<&'p str>,
    sizes: Vec<u64>,
}

impl<'p> Devices<'p> {
    pub(in crate::export) fn of(plan: &'p PlanJson) -> Self {
        let axes = plan.mesh.iter().map(|axis| axis.axis.as_str()).collect();
        Self { axes, sizes: plan.mesh.iter().map(|axis| axis.size).collect() }
    }

    pub(in crate::export) fn count(&self) -> u64 {
        self.sizes.iter().product()
    }

    /// The product of the sizes of axes.
    pub(in crate::export) fn ways(&self, axes: &[String]) -> u64 {
        axes.iter().map(|axis| self.sizes[self.place(axis)]).product()
    }

    fn place(&self, axis: &str) -> usize {
        self.axes.iter().position(|other| *other == axis).unwrap_or(0)
    }

    /// How far apart neighbours along an axis are, and how many there are.
    pub(in crate::export) fn stride(&self, axis: &str) -> [u64; 2] {
        let place = self.place(axis);
        [self.sizes[place + 1..].iter().product(), self.sizes[place]]
    }

    /// The place of a device along an axis.
    pub(in crate::export) fn at(&self, device: u64, axis: &str) -> u64 {
        let [stride, size] = self.stride(axis);
        device / stride % size
    }

    /// The device at another place along an axis.
    pub(in crate::export) fn moved(&self, device: u64, axis: &str, place: u64) -> u64 {
        let [stride, _] = self.stride(axis);
        device - self.at(device, axis) * stride + place * stride
    }

    fn places(&self, device: u64) -> Places {
        self.axes.iter().map(|axis| self.at(device, axis)).collect()
    }

    /// The number of a block that a device has of a dimension split over axes.
    fn block(&self, device: &Places, axes: &[String]) -> u64 {
        axes.iter().fold(0, |block, axis| {
            let place = self.place(axis);
            block * self.sizes[place] + device[place]
        })
    }

    /// The groups of devices along axes, each in the order of these.
    pub(in crate::export) fn groups(&self, axes: &[String]) -> Vec<Vec<u64>> {
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
    pub(in crate::export) fn shifted(&self, axes: &[String], by: u64) -> Vec<[u64; 2]> {
        let count = self.ways(axes) as usize;
        let groups = self.groups(axes);
        let pairs = groups.iter().flat_map(|group| {
            (0..count).map(|place| [group[place], group[(place + by as usize) % count]])
        });
        pairs.collect()
    }

    /// From each device to the one that has its block after a step: within groups of the axes, the
    /// devices in the order of the blocks that they have before and after.
    pub(in crate::export) fn relabelled(&self, step: &StepJson, axes: &[String]) -> Vec<[u64; 2]> {
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
