//! How far predictions at measured rates are from published measurements, by group: the error bars
//! of expected times.
//!
//! The figures are those of the page `compiler/docs/accuracy.md`. Both are written by the test that
//! predicts every case (`tests/tests/thorough/accuracy.rs`), and it fails where either is out of
//! date.

use std::sync::LazyLock;

use strum::{EnumString, IntoStaticStr, VariantArray};

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Group {
    /// Times of single collectives.
    Collectives,
    /// Times of single products and passes.
    Kernels,
    /// Times of training steps.
    Training,
    /// Times of prefill.
    Prefill,
    /// Times of decode steps.
    Decode,
    /// Peak memory of a device.
    Memory,
}

/// Errors of a group, as shares of what was measured, without their sign.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accuracy {
    /// Predicted cases.
    pub cases: usize,
    /// Mean error.
    pub mean: f64,
    /// Median error.
    pub median: f64,
    /// Mean error where nothing is fitted to the source of a case.
    pub unseen_mean: f64,
    /// Its median.
    pub unseen_median: f64,
}

impl Group {
    /// Its name on the page.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// How far its predictions are off.
    ///
    /// ```
    /// use shardwise::accuracy::Group;
    /// let training = Group::Training.accuracy();
    /// assert!(training.cases > 20 && training.mean < 0.15);
    /// ```
    pub fn accuracy(self) -> Accuracy {
        TABLE.iter().find(|(group, _)| *group == self).map(|(_, row)| *row).unwrap_or_default()
    }
}

static TABLE: LazyLock<Vec<(Group, Accuracy)>> =
    LazyLock::new(|| include_str!("accuracy.csv").lines().skip(1).filter_map(row).collect());

fn row(line: &str) -> Option<(Group, Accuracy)> {
    let mut cells = line.split(',');
    let group = cells.next()?.parse().ok()?;
    let cases = cells.next()?.parse().ok()?;
    let mut share = || cells.next()?.parse::<f64>().ok();
    let (mean, median) = (share()?, share()?);
    let accuracy = Accuracy { cases, mean, median, unseen_mean: share()?, unseen_median: share()? };
    Some((group, accuracy))
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::Group;

    #[test]
    fn every_group_has_a_row() {
        for group in Group::VARIANTS {
            let row = group.accuracy();
            assert!(row.cases > 0 && row.mean > 0.0, "{group:?}");
        }
    }
}
