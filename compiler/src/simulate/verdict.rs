//! What running a plan showed, and how it is said.

use std::fmt;

/// What running a plan showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whose plan was run: `search`, `textbook` or `explicit`.
    pub plan: &'static str,
    /// Statements that were run.
    pub statements: usize,
    /// Devices that were simulated.
    pub devices: usize,
    /// The axes and dimensions as they were run.
    pub setting: String,
    /// Whether they are smaller than the program's.
    pub scaled: bool,
    /// The largest difference seen, relative to the largest element of the value it was seen in.
    pub largest_error: f64,
    /// Up to which such difference numbers count as equal; 0 where all arithmetic is exact.
    pub tolerance: f64,
    /// Elements of the unsharded program that are no number (0/0 and the like): of these only that
    /// the plan's are none either was compared.
    pub undefined: usize,
    /// What the data were made from.
    pub seed: u64,
    /// The first thing that was wrong.
    pub mismatch: Option<Mismatch>,
}

/// Where a plan went wrong first.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The statement, as the plan writes it.
    pub statement: String,
    /// What is wrong with it.
    pub fault: Fault,
}

/// How a statement can be wrong. Devices are named by their coordinates, `X=1, Y=0`.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A device computes another number than the unsharded program.
    Number {
        /// Where.
        device: String,
        /// The element of its block.
        index: Vec<usize>,
        /// What the device has there.
        found: f64,
        /// What the unsharded program has there.
        expected: f64,
    },
    /// A device's block has not the shape that the left side says.
    Shape {
        /// Where.
        device: String,
        /// What the device has.
        found: Vec<usize>,
        /// What the left side makes of the value.
        expected: Vec<usize>,
    },
    /// Local operands whose blocks do not fit together.
    Unfit {
        /// Where.
        device: String,
    },
    /// What is pending are not parts of one shape.
    Parts,
    /// It reads what no earlier statement gives.
    Missing {
        /// The operand as written.
        operand: String,
    },
    /// The collective cannot do that to its operand.
    NotApplicable,
    /// The program asks for it (an output, or a left side's brackets), and it is never there.
    NotThere,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { device, index, found, expected } => {
                write!(
                    f,
                    "gives {found} on device {device} at {index:?}, and the unsharded program \
                        {expected}"
                )
            }
            Self::Shape { device, found, expected } => {
                write!(
                    f,
                    "gives a block of shape {found:?} on device {device}, and its left side means \
                        {expected:?}"
                )
            }
            Self::Unfit { device } => {
                write!(f, "reads blocks on device {device} that do not fit together")
            }
            Self::Parts => {
                write!(f, "leaves parts of different shapes, which cannot be put together")
            }
            Self::Missing { operand } => write!(f, "reads `{operand}`, which no device holds"),
            Self::NotApplicable => write!(f, "asks of a collective what it does not do"),
            Self::NotThere => write!(f, "is asked for by the program, and never there"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scaled = if self.scaled { ", scaled down" } else { "" };
        let run = format!(
            "{} statements on {} devices ({}{scaled}; seed {})",
            self.statements, self.devices, self.setting, self.seed
        );
        if let Some(wrong) = &self.mismatch {
            return write!(f, "wrong: `{}` {}; {run}", wrong.statement, wrong.fault);
        }
        let accuracy = if self.tolerance == 0.0 {
            "exactly".to_owned()
        } else {
            format!("within {:.0e} (largest error {:.1e})", self.tolerance, self.largest_error)
        };
        write!(f, "right: {run}, every value on every device as unsharded, {accuracy}")?;
        if self.undefined > 0 {
            write!(f, "; {} elements are no numbers in either", self.undefined)?;
        }
        Ok(())
    }
}
