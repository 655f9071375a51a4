//! Plans in the formats of other tools, one file each, and the table of formats.

mod chakra;
mod devices;
pub(crate) mod dot;
mod drawing;
mod jax;
pub mod json;
mod markdown;
mod python;
mod sdy;
pub(crate) mod text;
mod torch;
pub(crate) mod trace;
mod walk;

use shardwise_ir::codes;

use crate::Planned;
use crate::report;
use json::PlanJson;

pub use crate::display::Format;
pub use chakra::Traces;

/// The formats of plans.
pub const FORMATS: &[Format<Planned>] = &[
    Format {
        name: "text",
        about: "The plan as a program, with costs as comments",
        write: |planned| Ok(planned.to_string()),
    },
    Format {
        name: "json",
        about: "JSON, `shardwise.plan/2`",
        write: |planned| Ok(planned.json().to_text() + "\n"),
    },
    Format {
        name: "md",
        about: "Markdown, for a comment on a pull request",
        write: |planned| Ok(markdown::markdown(planned)),
    },
    Format { name: "html", about: "A page for the browser: a report", write: report::html },
    Format { name: "dot", about: "The dataflow, for Graphviz", write: |planned| Ok(planned.dot()) },
    Format {
        name: "trace",
        about: "The schedule as a Chrome trace, for Perfetto",
        write: |planned| Ok(planned.trace()),
    },
    Format {
        name: "svg",
        about: "A picture: each statement beside its arrays, cut into blocks",
        write: Planned::drawing,
    },
];

/// The frameworks that plans are exported to.
pub const EXPORTS: &[Format<Planned>] = &[
    Format {
        name: "jax",
        about: "A Python module: the plan's collectives under `jax.shard_map`",
        write: jax_module,
    },
    Format {
        name: "torch",
        about: "A Python module: the plan's collectives of `torch.distributed`, DTensor placements",
        write: torch_module,
    },
    Format {
        name: "sdy",
        about: "StableHLO text: the plan's collectives in an `sdy.manual_computation`",
        write: sdy_module,
    },
    Format {
        name: "chakra",
        about: "Execution traces of MLCommons Chakra, one for each rank, for ASTRA-sim",
        write: |_| Err("traces are one file for each rank: `Planned::chakra` has them".to_owned()),
    },
];

/// What can be written for JAX.
pub const JAX_FORMATS: &[Format<Planned>] = &[
    Format { name: "module", about: "A Python module that runs the plan", write: jax_module },
    Format {
        name: "specs",
        about: "PartitionSpecs by name, and logical axes with their rules, for Flax and MaxText",
        write: |planned| Ok(jax::specs(&planned.json())),
    },
];

/// How a module for JAX has the plan's shardings.
pub const JAX_STYLES: &[Format<Planned>] = &[
    Format { name: "shard_map", about: "The plan's collectives, in its order", write: jax_module },
    Format {
        name: "explicit",
        about: "Shardings in the types of complete arrays (`jax.sharding.AxisType.Explicit`)",
        write: |planned| partitioned_module(planned, jax::explicit),
    },
    Format {
        name: "constraints",
        about: "`with_sharding_constraint` around each statement, for XLA's partitioner",
        write: |planned| partitioned_module(planned, jax::constraints),
    },
];

/// The largest mesh on which an exported module compares itself with the unsharded program.
const SMALL_DEVICES: u64 = 16;

fn jax_module(planned: &Planned) -> Result<String, String> {
    python_module(planned, "JAX", jax::module)
}

/// A module that XLA's partitioner runs. What it cannot run, the plan's own collectives mostly can.
fn partitioned_module(
    planned: &Planned,
    module: fn(&PlanJson, &PlanJson) -> walk::Result,
) -> Result<String, String> {
    python_module(planned, "JAX", module).map_err(|why| match jax_module(planned) {
        Ok(_) => format!("{why}; leave out `--style` to write the plan with its own collectives"),
        Err(_) => why,
    })
}

fn torch_module(planned: &Planned) -> Result<String, String> {
    python_module(planned, "PyTorch", torch::module)
}

fn sdy_module(planned: &Planned) -> Result<String, String> {
    sdy::module(&planned.json()).map_err(|of| not_exported(&of, "StableHLO"))
}

fn python_module(
    planned: &Planned,
    framework: &str,
    module: fn(&PlanJson, &PlanJson) -> walk::Result,
) -> Result<String, String> {
    let small = planned.small(SMALL_DEVICES).json();
    module(&planned.json(), &small).map_err(|of| not_exported(&of, framework))
}

fn not_exported(of: &walk::Unsupported, framework: &str) -> String {
    let value = if of.value.is_empty() { String::new() } else { format!(" (`{}`)", of.value) };
    let (code, what) = (codes::tool::NOT_EXPORTED, &of.what);
    format!("{code}: {what} cannot be written in {framework} yet{value}")
}

impl Planned {
    /// The stable JSON form.
    pub fn json(&self) -> PlanJson {
        json::plan(self)
    }

    /// The plan's dataflow as Graphviz DOT.
    pub fn dot(&self) -> String {
        dot::dot(self)
    }

    /// The plan as a picture (SVG): each statement beside the arrays that it reads and writes.
    ///
    /// # Errors
    ///
    /// What keeps it from being drawn.
    pub fn drawing(&self) -> Result<String, String> {
        drawing::svg(self)
    }

    /// Execution traces of `MLCommons` Chakra, one for each rank.
    ///
    /// # Errors
    ///
    /// What cannot be written, with a code.
    pub fn chakra(&self) -> Result<Traces, String> {
        Traces::of(self).map_err(|of| not_exported(&of, "Chakra"))
    }

    /// The schedule as a Chrome trace.
    pub fn trace(&self) -> String {
        trace::trace(self)
    }
}
