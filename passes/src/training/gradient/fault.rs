//! Why gradients cannot be derived; the caller words the message.

use shardwise_ir::ids::{OpId, ValueId};

use crate::training::microbatches::MicrobatchFault;

/// Why gradients cannot be derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GradientFault {
    /// `backward` reaches neither a parameter nor a named gradient.
    Nothing,
    /// The program names the gradient of this value, which does not lead to what is differentiated.
    Unreached(ValueId),
    /// The gradient would pass from the operation to this operand of it, but the function has no
    /// derivative.
    NoDerivative(OpId, usize),
    /// The gradient of the first needs the name that the second has.
    NameTaken(ValueId, ValueId),
    /// The step cannot be split into microbatches.
    Microbatches(MicrobatchFault),
}
