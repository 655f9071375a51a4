//! Finds smaller meshes on which the same plan can be run.
//!
//! A mesh stays as it is up to so many devices. Of larger ones, sizes that are powers of two
//! shrink together where their logarithms have a common divisor (16x16x16 becomes 4x4x4), else one
//! by one (16x8 becomes 8x2): either way every product of axes that equals another still does, as
//! relabelling needs. Shrinking one by one alone would work, but would make equal axes different.

use shardwise_ir::mesh::Mesh;

/// Meshes up to this size are simulated as they are.
pub(super) const MOST_DEVICES: u64 = 64;

/// Devices that axes shrink to one by one, as powers of two: the fewer if that is possible.
const BITS: [u64; 2] = [4, MOST_DEVICES.ilog2() as u64];

/// The meshes that a plan may be run on, of at most `most` devices if axes can shrink so far, the
/// smallest first; its own mesh last.
pub(super) fn smaller(mesh: &Mesh, most: u64) -> Vec<Mesh> {
    let own: Vec<u64> = mesh.axes.iter().map(|axis| axis.size).collect();
    let with = |sizes: &Vec<u64>| {
        let mut mesh = mesh.clone();
        mesh.axes.iter_mut().zip(sizes).for_each(|(axis, &size)| axis.size = size);
        mesh
    };
    sizes(&own, most).iter().chain([&own]).map(with).collect()
}

/// Smaller sizes of the axes of a large mesh.
fn sizes(own: &[u64], most: u64) -> Vec<Vec<u64>> {
    let devices = own.iter().fold(1_u64, |n, &size| n.saturating_mul(size));
    if devices <= most || !own.iter().all(|size| size.is_power_of_two()) {
        return Vec::new();
    }
    let logs: Vec<u64> = own.iter().map(|size| u64::from(size.trailing_zeros())).collect();
    let one_by_one = BITS.into_iter().filter_map(|most| one_by_one(&logs, most));
    let mut found: Vec<Vec<u64>> = together(&logs, most).into_iter().chain(one_by_one).collect();
    found.dedup();
    found.iter().map(|logs| logs.iter().map(|log| 1 << log).collect()).collect()
}

/// All divided by the least common divisor that makes them few enough.
fn together(logs: &[u64], most: u64) -> Option<Vec<u64>> {
    let common = logs.iter().fold(0, |a, &b| gcd(a, b));
    let bits: u64 = logs.iter().sum();
    let fits = |&shrink: &u64| common % shrink == 0 && bits / shrink <= u64::from(most.ilog2());
    (2..=common).find(fits).map(|shrink| logs.iter().map(|log| log / shrink).collect())
}

/// The largest that are at most `most` together and keep what is equal; of these the one whose
/// first axes are largest.
fn one_by_one(logs: &[u64], most: u64) -> Option<Vec<u64>> {
    let mut found = vec![Vec::new()];
    for (place, &log) in logs.iter().enumerate() {
        let longer = |head: &Vec<u64>| {
            let left = most.saturating_sub(head.iter().sum());
            (log.min(1)..=log.min(left))
                .map(|next| [head.as_slice(), &[next]].concat())
                .collect::<Vec<_>>()
        };
        found = found
            .iter()
            .flat_map(longer)
            .filter(|head| keeps_equal(&logs[..=place], head))
            .collect();
    }
    found.into_iter().max_by_key(|logs| (logs.iter().sum::<u64>(), logs.clone()))
}

/// Whether products of axes that were equal still are.
fn keeps_equal(before: &[u64], after: &[u64]) -> bool {
    let sides = (0..before.len()).fold(vec![(0_i64, 0_i64)], |sums, place| {
        let (was, is) = (before[place].cast_signed(), after[place].cast_signed());
        sums.iter().flat_map(|&(a, b)| [(a, b), (a + was, b + is), (a - was, b - is)]).collect()
    });
    sides.iter().all(|&(was, is)| was != 0 || is == 0)
}

pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::{one_by_one, together};

    #[test]
    fn axes_shrink_and_what_is_equal_stays_equal() {
        assert_eq!(together(&[4, 4, 4], 64), Some(vec![2, 2, 2]));
        assert_eq!(together(&[4, 3], 64), None);
        assert_eq!(one_by_one(&[4, 3], 4), Some(vec![3, 1]));
        assert_eq!(one_by_one(&[4, 4, 3], 4), Some(vec![1, 1, 2]));
        assert_eq!(one_by_one(&[5, 3, 2], 4), Some(vec![2, 1, 1]), "32 = 8 * 4");
        assert_eq!(one_by_one(&[1, 1, 1, 1, 3], 4), None);
    }
}
