//! A calibration in words: the fit of each group, the measurements farthest off, and those that
//! were left out.

use std::fmt::{self, Display, Formatter};

use super::{Calibration, Figure, GroupFit, Residual};
use crate::display::table::{Column, row};
use crate::display::units;

/// So many of the measurements farthest off are shown of each group.
const FARTHEST: usize = 3;
/// So many of those that were left out.
const LEFT_OUT: usize = 10;
/// A mean error above this says that something else was measured.
const HOPELESS: f64 = 0.5;

impl Display for Calibration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let residuals = || self.groups.iter().flat_map(|group| &group.residuals);
        let left_out: Vec<_> = residuals().filter(|residual| residual.left_out.is_some()).collect();
        let all = residuals().count();
        let all = units::counted(all as u64, "measurement");
        write!(f, "{}: {all} on {}", self.hardware.name, self.base)?;
        writeln!(f, ", {} left out{}", left_out.len(), self.others())?;
        for group in &self.groups {
            write!(f, "\n{group}")?;
        }
        if !left_out.is_empty() {
            writeln!(f, "\nleft out")?;
        }
        for residual in left_out.iter().take(LEFT_OUT) {
            let reason = residual.left_out.as_deref().unwrap_or_default();
            writeln!(f, "  {}: {}, {reason}", residual.place, named(residual))?;
        }
        let more = left_out.len().saturating_sub(LEFT_OUT);
        if more > 0 { writeln!(f, "  and {more} more") } else { Ok(()) }
    }
}

impl Calibration {
    fn others(&self) -> String {
        match self.of_other_chips {
            0 => String::new(),
            count => format!("; {count} more are of other chips"),
        }
    }
}

impl Display for GroupFit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (mean, median) = self.mean_and_median();
        let count = self.fitted().count();
        if count == 0 {
            return writeln!(f, "{}: all measurements are left out", self.name);
        }
        writeln!(
            f,
            "{}: {}, off by {} on average ({} median), before the fit {}",
            self.name,
            units::counted(count as u64, "measurement"),
            percent(mean),
            percent(median),
            percent(self.before)
        )?;
        for figure in &self.figures {
            writeln!(f, "{}", figure.line())?;
        }
        for (what, keys) in [
            ("not determined by these measurements, left as before", &self.undetermined),
            ("met as well by the figures as they are, which stay", &self.kept),
            ("contradicted by these measurements, left out of the file", &self.removed),
        ] {
            if !keys.is_empty() {
                writeln!(f, "  {what}: {}", keys.join(", "))?;
            }
        }
        if mean > HOPELESS {
            writeln!(f, "  these figures do not explain the measurements; is this the chip?")?;
        }
        let mut farthest: Vec<&Residual> = self.fitted().collect();
        farthest.sort_by(|a, b| b.error().abs().total_cmp(&a.error().abs()));
        for residual in farthest.iter().take(FARTHEST) {
            let (fitted, off) = (units::seconds(residual.fitted_s), 100.0 * residual.error());
            writeln!(f, "  {}: {}, fitted {fitted} ({off:+.0}%)", residual.place, named(residual))?;
        }
        Ok(())
    }
}

impl Figure {
    fn line(&self) -> String {
        let number = |value: f64| match self.is_share {
            true if value < 5e-4 => units::number(value),
            true => format!("{value:.3}"),
            false => units::seconds(value),
        };
        let limit = if self.is_at_limit() {
            "; at its limit: the chip's peak may be higher than stated"
        } else {
            ""
        };
        let what = format!("{}{limit}", self.what);
        let columns = [Column::Left(20), Column::Right(8), Column::Left(12), Column::Left(0)];
        let error = format!("± {}", number(self.error));
        format!("  {}", row(&columns, &[self.key.to_owned(), number(self.value), error, what]))
    }
}

/// A measurement with its time.
fn named(residual: &Residual) -> String {
    format!("{}, measured {}", residual.kernel, units::seconds(residual.measured_s))
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// The head of the hardware file: where its figures come from.
pub(super) fn remark(calibration: &Calibration) -> String {
    let mut lines = format!(
        "# {} with figures fitted by `shardwise calibrate`; all others are those of {}.\n",
        calibration.base, calibration.base
    );
    for group in &calibration.groups {
        let keys: Vec<&str> = group.figures.iter().map(|figure| figure.key).collect();
        let fitted = if keys.is_empty() { "nothing is fitted".to_owned() } else { keys.join(", ") };
        let (mean, median) = group.mean_and_median();
        lines += &format!(
            "# {}: {}, off by {} on average, {} median: {fitted}\n",
            group.name,
            units::counted(group.fitted().count() as u64, "measurement"),
            percent(mean),
            percent(median),
        );
    }
    lines
}
