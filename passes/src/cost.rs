//! Prices steps and schedules them; computes memory, crossovers and reports.

pub(crate) mod chains;
pub mod collective;
pub(crate) mod collective_matmul;
pub(crate) mod contention;
pub mod crossover;
pub mod held;
pub(crate) mod kernel_reads;
pub mod limits;
pub mod liveness;
pub mod local;
pub mod pipeline_schedule;
pub mod pipeline_stages;
pub mod report;
pub(crate) mod schedule;
pub(crate) mod send_recv;
pub mod serving;
pub mod stage_report;
pub(crate) mod step_ends;
