//! What waits for gradients in the memory of the host.

use shardwise_ir::plan::{Materialization, Plan, StepKind};

use crate::cost::pipeline_stages;
use crate::layouts::local_shape;

/// The bytes that a plan sends to the host, of all layers and microbatches that are in flight.
pub(super) fn bytes(plan: &Plan) -> f64 {
    let program = &plan.program;
    let stored = plan.steps.iter().filter(
        |step| matches!(step.kind, StepKind::Local(op) if program.ops[op].is_stored_on_host()),
    );
    let bytes = stored.map(|step| {
        let Materialization { value, sharding } = &step.result;
        pipeline_stages::in_flight_copies(program, *value)
            * local_shape::local_bytes(program, *value, sharding)
    });
    bytes.fold(0.0, |a, b| a + b)
}
