//! The roles of declared values.

/// The role of a declared value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// An input of each step.
    Input,
    /// Resident on the devices.
    Param,
    /// The same, and not trained. A resolved program has a parameter that is marked as frozen.
    FrozenParam,
    /// Resident and updated.
    State,
    /// An output of the program.
    Output,
}

impl Role {
    /// The role that `keyword` declares.
    pub fn of(keyword: &str) -> Option<Self> {
        match keyword {
            "input" => Some(Self::Input),
            "param" => Some(Self::Param),
            "state" => Some(Self::State),
            "output" => Some(Self::Output),
            _ => keyword.strip_prefix("frozen").map(|_| Self::FrozenParam),
        }
    }
}
