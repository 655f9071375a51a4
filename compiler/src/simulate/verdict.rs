//! The result of running a plan, and its text.

use std::fmt;

use crate::display::units;

/// The result of running a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The strategy of the plan: `search`, `textbook` or `explicit`.
    pub plan: &'static str,
    /// Whether the textbook's rules find no plan of the program.
    pub rules_fail: bool,
    /// Statements that were run.
    pub statements: usize,
    /// Devices that were simulated.
    pub devices: usize,
    /// The sizes of axes and dimensions in the run.
    pub setting: String,
    /// Whether they are smaller than the program's.
    pub scaled: bool,
    /// The number of samples that were run, the first at these sizes; 1 where the whole plan was.
    pub samples: usize,
    /// The largest difference, relative to what the tolerance of its value is relative to.
    pub largest_error: f64,
    /// The tolerance; 0 where all arithmetic is exact.
    pub tolerance: f64,
    /// Elements of the unsharded program that are NaN (0/0 and similar), which were only compared
    /// for being NaN in the plan as well.
    pub undefined: usize,
    /// The seed of the data.
    pub seed: u64,
    /// The first mismatch.
    pub mismatch: Option<Mismatch>,
}

impl Verdict {
    /// That of both runs of a plan.
    pub(super) fn and(self, other: Self) -> Self {
        if self.mismatch.is_some() {
            return self;
        }
        if other.mismatch.is_some() {
            return Self { samples: self.samples, ..other };
        }
        Self {
            largest_error: self.largest_error.max(other.largest_error),
            tolerance: self.tolerance.max(other.tolerance),
            undefined: self.undefined + other.undefined,
            ..self
        }
    }
}

/// The first mismatch of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The statement, as the plan writes it.
    pub statement: String,
    /// What is wrong with it.
    pub fault: Fault,
}

/// The kinds of mismatches. Devices are named by their coordinates, `X=1, Y=0`.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A device computes another number than the unsharded program.
    Number {
        /// The device.
        device: String,
        /// The element of its block.
        index: Vec<usize>,
        /// The number on the device.
        found: f64,
        /// The number in the unsharded program.
        expected: f64,
    },
    /// A device's block does not have the shape of the left side.
    Shape {
        /// The device.
        device: String,
        /// The shape on the device.
        found: Vec<usize>,
        /// The shape of the left side.
        expected: Vec<usize>,
    },
    /// Local operands whose blocks do not fit together.
    Unfit {
        /// The device.
        device: String,
    },
    /// Pending parts have different shapes.
    Parts,
    /// It reads a materialization that no earlier statement produces.
    Missing {
        /// The operand as written.
        operand: String,
    },
    /// The collective cannot do that to its operand.
    NotApplicable,
    /// The program requires it (an output, or a left side's brackets), and the plan never produces
    /// it.
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
            Self::NotApplicable => write!(f, "asks for a collective that does not exist"),
            Self::NotThere => write!(f, "is required by the program, and never produced"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scaled = if self.scaled { ", scaled down" } else { "" };
        let samples = match self.samples {
            0 | 1 => String::new(),
            count => format!(
                "; the first of {count} samples: too large to be run whole, each has one device \
                    along some axes and one element along some dimensions"
            ),
        };
        let run = format!(
            "{} on {} ({}{scaled}{samples}; seed {})",
            units::counted(self.statements as u64, "statement"),
            units::counted(self.devices as u64, "device"),
            self.setting,
            self.seed
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
