//! How collectives run beside the products next to them.
//!
//! Compilers cut a gather and the product that reads it into chunks where they are asked to, and
//! some do so by themselves from a size on. So it is a setting of how the program runs, beside
//! `rates` and `fusion`; without it a schedule is that of steps that run whole.

use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// Whether products run beside the collectives that bring their operands or reduce their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Collectives {
    /// A product waits for all of an `AllGather`, and a `ReduceScatter` for all of a product.
    #[default]
    Whole,
    /// Both run in chunks, each as soon as the other's is there: collective matmul.
    Chunked,
}

impl Collectives {
    /// As options write it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
