//! Measurements that no figures of a chip come near, because their times are in another unit or
//! their sizes are not those that ran.
//!
//! A hardware file accepts shares and times within limits ([`Scale::plausible`]). The prices of a
//! kernel at both ends of all of them are the longest and the shortest times that a fit could meet.
//! A fit to others ends at a limit, or beyond it, in a file that the next command rejects. Times
//! may be a little too short all the same: stated peaks may be too low.

use shardwise_ir::Diag;
use shardwise_ir::hardware::Hardware;
use shardwise_ir::rates::MeasuredRates;

use super::fit::{GROUPS, Group, Row};
use super::text::wrong;
use crate::display::units;
use crate::hardware::numbers::{self, Scale};

/// How many times as fast as its stated peak a chip may be.
const ABOVE_PEAK: f64 = 10.0;

/// What times in another unit are taken for: how many times too long or short they are, and what
/// to do. Those come first that make of them a time near the peak.
const UNITS: [(f64, &str); 4] = [
    (1e6, "if the numbers are microseconds, call their column `measured_us`"),
    (1e3, "if the numbers are milliseconds, write 1000 times as much in `measured_us`"),
    (1e-3, "if the numbers are milliseconds, write 1000 times as much in `measured_us`"),
    (1e-6, "if the numbers are seconds, call their column `measured_s`"),
];

/// The rates of a chip at the ends of what its file may say of a group.
pub(super) struct Limits {
    slowest: MeasuredRates,
    fastest: MeasuredRates,
}

impl Limits {
    pub(super) fn of(group: &Group, base: &Hardware) -> Self {
        let rates = |is_slow: bool| {
            let mut hardware = base.clone();
            let is_its = |key: &str| group.prefixes.iter().any(|prefix| key.starts_with(prefix));
            for (_, _, scale, field) in numbers::MEASURED.iter().filter(|(key, ..)| is_its(key)) {
                let plausible = scale.plausible();
                let is_least = is_slow == (*scale == Scale::Share);
                let end = if is_least { plausible.start() } else { plausible.end() };
                *field(&mut hardware) = Some(*end);
            }
            hardware.measured
        };
        Self { slowest: rates(true), fastest: rates(false) }
    }

    /// The shortest and the longest seconds of a row that are plausible.
    fn seconds(&self, row: &Row) -> [f64; 2] {
        [row.priced.seconds(&self.fastest) / ABOVE_PEAK, row.priced.seconds(&self.slowest)]
    }

    /// Why a row cannot be fitted.
    pub(super) fn excluded(&self, row: &Row) -> Option<String> {
        let [shortest_s, longest_s] = self.seconds(row);
        let seconds = row.measurement.seconds;
        if seconds > longest_s {
            let longest = units::seconds(longest_s);
            Some(format!("which no rates explain: {longest} are the longest"))
        } else if seconds < shortest_s {
            let shortest = units::seconds(shortest_s);
            Some(format!("which no rates explain: {shortest} are the shortest"))
        } else {
            None
        }
    }

    /// What to write instead of a row that cannot be fitted.
    fn help(&self, row: &Row) -> &'static str {
        let [shortest_s, longest_s] = self.seconds(row);
        let is_plausible = |times: f64| {
            let seconds = row.measurement.seconds / times;
            (shortest_s..=longest_s).contains(&seconds)
        };
        let is_too_long = row.measurement.seconds > longest_s;
        let mut units = UNITS.iter().filter(|(times, _)| (*times > 1.0) == is_too_long);
        let unit = units.find(|(times, _)| is_plausible(*times));
        unit.map_or("check its sizes and its time, and whether this is the chip", |(_, help)| help)
    }
}

/// The error of a file in which all rows of a group cannot be fitted, at the first of them.
pub(super) fn all_excluded(rows: &[Row], base: &Hardware) -> Option<Diag> {
    GROUPS.iter().find_map(|group| {
        let limits = Limits::of(group, base);
        let mut own = rows.iter().filter(|row| (group.has)(&row.measurement.kernel));
        let first = own.next()?;
        let reason = limits.excluded(first)?;
        let are_all = own.all(|row| limits.excluded(row).is_some());
        are_all.then(|| {
            let (kernel, took) =
                (&first.measurement.kernel, units::seconds(first.measurement.seconds));
            let message = format!("{kernel} in {took}, {reason}");
            wrong(message, first.measurement.span, limits.help(first))
        })
    })
}
