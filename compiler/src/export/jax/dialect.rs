//! JAX's own words.

use shardwise_ir::dtype::DType;

use super::super::json::{Operation, StepJson};
use super::super::python::body::Writer;
use super::super::python::collectives::axes;
use super::super::python::dialect::{Dialect, View, Written};
use super::super::python::expression::Expressions;
use super::super::python::layout::tuple;
use super::super::python::loops::Iterated;
use super::super::walk::{Result, unsupported};
use super::styles::{self, Style};
use super::{collectives, loops};

/// JAX, in one of its styles.
pub(super) struct Jax {
    pub(super) style: Style,
}

/// Helper functions, in the order in which they are written.
const HELPERS: &[(&str, &str)] = &[
    ("dtype", include_str!("helpers/dtype.py")),
    ("local", include_str!("helpers/local.py")),
    ("blocks", include_str!("helpers/blocks.py")),
    ("side_by_side", include_str!("helpers/side_by_side.py")),
    ("own_part", include_str!("helpers/own_part.py")),
    ("own_parts", include_str!("helpers/own_parts.py")),
    ("first_only", include_str!("helpers/first_only.py")),
    ("exchange", include_str!("helpers/exchange.py")),
    ("relabel", include_str!("helpers/relabel.py")),
    ("roll", include_str!("helpers/roll.py")),
    ("zigzag", include_str!("helpers/zigzag.py")),
    ("microbatches", include_str!("helpers/microbatches.py")),
    ("layer_slots", include_str!("helpers/layer_slots.py")),
    ("run_stages", include_str!("helpers/run_stages.py")),
    ("sum_of_layers", include_str!("helpers/sum_of_layers.py")),
    ("joined", include_str!("helpers/joined.py")),
    ("chunks", include_str!("helpers/chunks.py")),
    ("stacked", include_str!("helpers/stacked.py")),
    ("pull_back", include_str!("helpers/pull_back.py")),
    ("adam_step", include_str!("helpers/adam_step.py")),
    ("layer_norm", include_str!("helpers/layer_norm.py")),
    ("rms_norm", include_str!("helpers/rms_norm.py")),
    ("one_hot", include_str!("helpers/one_hot.py")),
    ("take_rows", include_str!("helpers/take_rows.py")),
    ("update_rows", include_str!("helpers/update_rows.py")),
    ("pad", include_str!("helpers/pad.py")),
    ("within", include_str!("helpers/within.py")),
    ("windows", include_str!("helpers/windows.py")),
    ("overlap", include_str!("helpers/overlap.py")),
    ("with_halo", include_str!("helpers/with_halo.py")),
    ("added_halo", include_str!("helpers/added_halo.py")),
    ("top_k", include_str!("helpers/top_k.py")),
    ("route", include_str!("helpers/route.py")),
];

impl Dialect for Jax {
    fn view(&self) -> View {
        if self.style == Style::ShardMap { View::Blocks } else { View::Sharded }
    }

    fn annotated(&self, e: &mut Expressions<'_>, of: &Written<'_>, text: String) -> String {
        styles::annotated(self.style, e, of, text)
    }

    fn framework(&self) -> &'static str {
        "jax"
    }

    fn arrays(&self) -> &'static str {
        "jnp"
    }

    fn dim_keyword(&self) -> &'static str {
        "axis"
    }

    fn helpers(&self) -> &'static [(&'static str, &'static str)] {
        HELPERS
    }

    fn has_pending_dims(&self) -> bool {
        self.style == Style::ShardMap
    }

    fn has_padded_blocks(&self) -> bool {
        self.style == Style::ShardMap
    }

    fn dtype(&self, name: &str) -> Result {
        Ok(jax_dtype(name))
    }

    fn cast(&self, of: &str, dtype: &str) -> String {
        format!("{of}.astype({dtype})")
    }

    fn sums_of_integers(&self) -> Option<&'static str> {
        Some(DType::Int32.name())
    }

    fn transposed(&self, of: &str, places: &str) -> String {
        format!("jnp.transpose({of}, {places})")
    }

    fn concatenated(&self, parts: &str, dim: usize) -> String {
        format!("jnp.concatenate([{parts}], axis={dim})")
    }

    fn window(&self, of: &str, dim: usize, start: &str, size: &str) -> String {
        format!("lax.dynamic_slice_in_dim({of}, {start}, {size}, {dim})")
    }

    fn running_sum(&self, _: &mut Expressions<'_>, of: &str, dim: usize, reverse: bool) -> String {
        if reverse {
            format!("lax.cumsum({of}, axis={dim}, reverse=True)")
        } else {
            format!("jnp.cumsum({of}, axis={dim})")
        }
    }

    fn rolled(
        &self,
        e: &mut Expressions<'_>,
        of: &str,
        distance: &str,
        dim: usize,
        split: &[String],
    ) -> String {
        e.helper("roll");
        format!("roll({of}, {distance}, {dim}, {})", axes(split))
    }

    fn group(&self, _: &mut Expressions<'_>, split: &[String]) -> String {
        axes(split)
    }

    fn reduction<'n>(&self, name: &'n str) -> &'n str {
        name
    }

    fn local(&self, e: &mut Expressions<'_>, size: &str, split: &[String]) -> String {
        e.helper("local");
        format!("local({size}, {})", axes(split))
    }

    fn axis_index(&self, split: &[String]) -> String {
        format!("lax.axis_index({})", axes(split))
    }

    fn einsum(
        &self,
        e: &mut Expressions<'_>,
        formula: &str,
        operands: [(&str, &str); 2],
        wanted: &str,
    ) -> Result {
        let natural = operands.iter().any(|(_, dtype)| *dtype == wanted);
        let wider = if natural {
            String::new()
        } else {
            format!(", preferred_element_type={}", e.dtype(wanted)?)
        };
        let [(left, _), (right, _)] = operands;
        Ok(format!("jnp.einsum(\"{formula}\", {left}, {right}{wider})"))
    }

    fn function(
        &self,
        e: &mut Expressions<'_>,
        step: &StepJson,
        function: &str,
        a: &[String],
    ) -> Result {
        Ok(match function {
            "stop_gradient" => format!("lax.stop_gradient({})", a[0]),
            "offload" | "reload"
                if self.style == Style::ShardMap
                    && e.plan.blocks.iter().any(|block| block.pipeline.is_some()) =>
            {
                let what = "a value in the host's memory, in a program with a pipeline";
                return unsupported(&step.value, what);
            }
            "offload" => format!("jax.device_put({}, jax.memory.Space.Host)", a[0]),
            "reload" => format!("jax.device_put({}, jax.memory.Space.Device)", a[0]),
            "pow" => format!("jnp.power({}, {})", a[0], a[1]),
            "rsqrt" => format!("lax.rsqrt({})", a[0]),
            "erf" => format!("jax.scipy.special.erf({})", a[0]),
            "relu" => format!("jax.nn.relu({})", a[0]),
            "gelu" => format!("jax.nn.gelu({}, approximate=True)", a[0]),
            "sigmoid" => format!("jax.nn.sigmoid({})", a[0]),
            "silu" | "swish" => format!("jax.nn.silu({})", a[0]),
            "softplus" => format!("jax.nn.softplus({})", a[0]),
            "derf" => e.derivative("jax.scipy.special.erf", a),
            "dgelu" => e.derivative("jax.nn.gelu", a),
            "dsigmoid" => e.derivative("jax.nn.sigmoid", a),
            "dsilu" => e.derivative("jax.nn.silu", a),
            "abs" | "cos" | "exp" | "expm1" | "log" | "maximum" | "minimum" | "round" | "sin"
            | "sqrt" | "square" | "tanh" => format!("jnp.{function}({})", a.join(", ")),
            other => return unsupported(&step.value, format!("the function `{other}`")),
        })
    }

    fn softmax(&self, _: &mut Expressions<'_>, of: &str, function: &str, dims: &[usize]) -> String {
        let along = match dims {
            [one] => one.to_string(),
            all => tuple(&all.iter().map(ToString::to_string).collect::<Vec<_>>()),
        };
        format!("jax.nn.{function}({of}, axis={along})")
    }

    fn collective(
        &self,
        e: &mut Expressions<'_>,
        step: &StepJson,
        operation: &Operation,
        of: &str,
    ) -> Result {
        collectives::collective(e, step, operation, of)
    }

    fn stages(&self, _: &mut Expressions<'_>, axis: &str) -> String {
        format!("{axis:?}")
    }

    fn has_loop_functions(&self) -> bool {
        true
    }

    fn iterated(&self, writer: &mut Writer<'_>, of: &Iterated<'_>) {
        loops::scan(writer, of);
    }
}

/// `jnp.bfloat16`: the name of a type in JAX.
pub(super) fn jax_dtype(name: &str) -> String {
    let known = match name {
        "bool" => "bool_",
        "f16" => "float16",
        "bf16" => "bfloat16",
        "f32" => "float32",
        "fp8" => "float8_e4m3fn",
        "fp4" => "float4_e2m1fn",
        other => other,
    };
    format!("jnp.{known}")
}
