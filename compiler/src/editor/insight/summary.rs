//! The figures of a step in one line.

use crate::Planned;
use crate::display::units;

/// `step 1.93 ms scheduled, 1.2 ms of it communication · memory 12.3 GB of 95 GB · optimal`.
pub(super) fn summary(planned: &Planned) -> String {
    let report = &planned.report;
    let makespan = units::seconds(report.schedule.makespan_s);
    let (serial, comm) = (units::seconds(report.serial_s), units::seconds(report.comm_s));
    let peak = units::bytes(report.memory.peak_bytes);
    let capacity = planned.capacity_bytes;
    let of = capacity.map_or_else(String::new, |bytes| format!(" of {}", units::bytes(bytes)));
    let found = match (planned.strategy_name(), planned.status_name()) {
        ("search", "optimal") => "optimal plan".to_owned(),
        ("search", _) => {
            let bound = planned.lower_bound_s();
            format!("no plan is under {}", units::seconds(bound))
        }
        (strategy, _) => format!("{strategy} plan"),
    };
    format!(
        "step {makespan} ({serial} without overlap, {comm} of it communication) · memory \
            {peak}{of} · {found}"
    )
}
