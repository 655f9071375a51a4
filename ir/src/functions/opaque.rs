//! Functions that the language does not have: a kernel of one's own, or what an importer does not
//! know, as `opaque<fft>_{T->F}(x)`.
//!
//! All that a program says of one is which dimensions it needs whole, and which its result has in
//! their place; along every other dimension it is computed apart for each element, so that these
//! may be sharded. No operand may be partial, and there is no gradient.
//!
//! Its elements are unknown. Where a plan is executed, a *stand-in* takes its place: numbers that
//! depend on the function's name, on every element of the operands and on the position in the
//! result. So a plan that gives the function a part of what it needs is found out.
//!
//! Alternatives: an `input` in place of the result would leave out the collectives that the
//! operands need, and when they run. A function of the user, called in `verify`, would make what is
//! verified depend on a Python and its packages, and says no more about the plan.

use crate::dtype::DType;
use crate::ids::DimId;

/// One of these functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Its author's name for it.
    pub name: String,
    /// Dimensions of the operands that it needs whole.
    pub from: Vec<DimId>,
    /// Dimensions that the result has in their place, whole, too.
    pub to: Vec<DimId>,
}

/// The number that stands for all elements that one result depends on.
#[derive(Clone, Copy, Debug)]
pub struct Digest {
    seed: u64,
    sum: f64,
    count: f64,
}

impl Opaque {
    /// The dimensions of the result, of operands that have `dims` together: as many new ones as
    /// are replaced stand in their places; otherwise all stand where the first one stood.
    pub fn result_dims(&self, dims: &[DimId]) -> Vec<DimId> {
        if self.from.len() == self.to.len() {
            let new = |dim: &DimId| self.from.iter().position(|old| old == dim);
            return dims.iter().map(|dim| new(dim).map_or(*dim, |at| self.to[at])).collect();
        }
        let replaced = |dim: &DimId| self.from.contains(dim);
        let at = dims.iter().position(replaced).unwrap_or(dims.len());
        let kept = |dims: &[DimId]| -> Vec<DimId> {
            dims.iter().copied().filter(|dim| !replaced(dim)).collect()
        };
        [kept(&dims[..at]), self.to.clone(), kept(&dims[at..])].concat()
    }

    /// Before any element is read.
    pub fn digest(&self) -> Digest {
        let seed = self.name.bytes().fold(0xcbf2_9ce4_8422_2325, |seed, byte| {
            (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Digest { seed, sum: 0.0, count: 0.0 }
    }
}

impl Digest {
    /// Reads the next element of the operands; infinite ones are numbers of their sign.
    pub fn read(&mut self, element: f64) {
        let element = if element.is_infinite() { element.signum() } else { element };
        self.count += 1.0;
        self.sum += (0.5 + unit(self.seed ^ self.count.to_bits())) * element;
    }

    /// The element of the result at a position among those that this digest is for: above zero, so
    /// that every function is defined on it.
    pub fn element(&self, position: usize, dtype: DType) -> f64 {
        let place = unit(self.seed.rotate_left(17) ^ position as u64);
        let wave = ((0.5 + place) * self.sum / self.count.max(1.0).sqrt() + 6.0 * place).sin();
        if dtype == DType::Bool {
            f64::from(u8::from(wave > 0.0))
        } else if dtype.is_float() {
            1.5 + wave / 2.0
        } else {
            (4.0 + 3.9 * wave).floor()
        }
    }
}

/// A number from 0 to 1 for each seed.
fn unit(seed: u64) -> f64 {
    let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}
