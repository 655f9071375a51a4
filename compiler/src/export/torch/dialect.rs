//! `PyTorch`'s own words.

use super::super::json::{Operation, StepJson};
use super::super::python::body::Writer;
use super::super::python::dialect::Dialect;
use super::super::python::expression::Expressions;
use super::super::python::layout::tuple;
use super::super::python::loops::Iterated;
use super::super::walk::{Result, unsupported};
use super::{collectives, loops};

/// `PyTorch`.
pub(super) struct Torch;

/// Helper functions, in the order in which they are written.
const HELPERS: &[(&str, &str)] = &[
    ("dtype", include_str!("helpers/dtype.py")),
    ("all_gather", include_str!("helpers/gather_scatter.py")),
    ("all_to_all", include_str!("helpers/all_to_all.py")),
    ("blocks", include_str!("helpers/blocks.py")),
    ("side_by_side", include_str!("helpers/side_by_side.py")),
    ("own_parts", include_str!("helpers/own_parts.py")),
    ("exchange", include_str!("helpers/exchange.py")),
    ("permute", include_str!("helpers/permute.py")),
    ("relabel", include_str!("helpers/relabel.py")),
    ("first_only", include_str!("helpers/first_only.py")),
    ("roll", include_str!("helpers/roll.py")),
    ("zigzag", include_str!("helpers/zigzag.py")),
    ("microbatches", include_str!("helpers/microbatches.py")),
    ("layer_slots", include_str!("helpers/layer_slots.py")),
    ("run_stages", include_str!("helpers/run_stages.py")),
    ("sum_of_layers", include_str!("helpers/sum_of_layers.py")),
    ("joined", include_str!("helpers/joined.py")),
    ("chunks", include_str!("helpers/chunks.py")),
    ("stacked", include_str!("helpers/stacked.py")),
    ("device_of", include_str!("helpers/device_of.py")),
    ("gelu", include_str!("helpers/gelu.py")),
    ("pull_back", include_str!("helpers/pull_back.py")),
    ("adam_step", include_str!("helpers/adam_step.py")),
    ("softmax", include_str!("helpers/softmax.py")),
    ("layer_norm", include_str!("helpers/layer_norm.py")),
    ("rms_norm", include_str!("helpers/rms_norm.py")),
    ("one_hot", include_str!("helpers/one_hot.py")),
    ("take_rows", include_str!("helpers/take_rows.py")),
    ("update_rows", include_str!("helpers/update_rows.py")),
    ("pad", include_str!("helpers/pad.py")),
    ("sum_from", include_str!("helpers/sum_from.py")),
    ("windows", include_str!("helpers/windows.py")),
    ("overlap", include_str!("helpers/overlap.py")),
    ("with_halo", include_str!("helpers/with_halo.py")),
    ("added_halo", include_str!("helpers/added_halo.py")),
    ("top_k", include_str!("helpers/top_k.py")),
    ("route", include_str!("helpers/route.py")),
];

impl Dialect for Torch {
    fn framework(&self) -> &'static str {
        "torch"
    }

    fn arrays(&self) -> &'static str {
        "torch"
    }

    fn dim_keyword(&self) -> &'static str {
        "dim"
    }

    fn helpers(&self) -> &'static [(&'static str, &'static str)] {
        HELPERS
    }

    fn has_pending_dims(&self) -> bool {
        false
    }

    fn has_padded_blocks(&self) -> bool {
        false
    }

    fn dtype(&self, name: &str) -> Result {
        torch_dtype(name)
    }

    fn cast(&self, of: &str, dtype: &str) -> String {
        format!("{of}.to({dtype})")
    }

    fn sums_of_integers(&self) -> Option<&'static str> {
        None
    }

    fn transposed(&self, of: &str, places: &str) -> String {
        format!("torch.permute({of}, {places})")
    }

    fn concatenated(&self, parts: &str, dim: usize) -> String {
        format!("torch.cat([{parts}], dim={dim})")
    }

    fn window(&self, of: &str, dim: usize, start: &str, size: &str) -> String {
        format!("torch.narrow({of}, {dim}, {start}, {size})")
    }

    fn running_sum(&self, e: &mut Expressions<'_>, of: &str, dim: usize, reverse: bool) -> String {
        if reverse {
            e.helper("sum_from");
            format!("sum_from({of}, {dim})")
        } else {
            format!("torch.cumsum({of}, dim={dim})")
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
        e.helper("permute");
        format!("roll({of}, {distance}, {dim}, {})", collectives::group(e, split))
    }

    fn group(&self, e: &mut Expressions<'_>, split: &[String]) -> String {
        e.helper("permute");
        collectives::group(e, split)
    }

    fn reduction<'n>(&self, name: &'n str) -> &'n str {
        match name {
            "max" => "amax",
            "min" => "amin",
            other => other,
        }
    }

    fn local(&self, _: &mut Expressions<'_>, size: &str, split: &[String]) -> String {
        format!("{size} // axes.size({})", collectives::arguments(split))
    }

    fn axis_index(&self, split: &[String]) -> String {
        format!("axes.index({})", collectives::arguments(split))
    }

    fn einsum(
        &self,
        e: &mut Expressions<'_>,
        formula: &str,
        operands: [(&str, &str); 2],
        wanted: &str,
    ) -> Result {
        // All operands of `torch.einsum` have the type of the result.
        let mut cast = |(of, dtype): (&str, &str)| {
            if dtype == wanted {
                return Ok(of.to_owned());
            }
            Ok(self.cast(of, &e.dtype(wanted)?))
        };
        let [left, right] = operands;
        Ok(format!("torch.einsum(\"{formula}\", {}, {})", cast(left)?, cast(right)?))
    }

    fn function(
        &self,
        e: &mut Expressions<'_>,
        step: &StepJson,
        function: &str,
        a: &[String],
    ) -> Result {
        let limit = |which: &str| match a {
            [number, of] if is_number(number) => format!("torch.clamp({of}, {which}={number})"),
            [of, number] if is_number(number) => format!("torch.clamp({of}, {which}={number})"),
            _ => format!("torch.{which}imum({}, {})", a[0], a[1]),
        };
        if matches!(function, "gelu" | "dgelu") {
            e.helper("gelu");
        }
        Ok(match function {
            "maximum" => limit("max").replace("max=", "min="),
            "minimum" => limit("min").replace("min=", "max="),
            "stop_gradient" => format!("{}.detach()", a[0]),
            "offload" => format!("{}.cpu()", a[0]),
            "reload" => {
                e.helper("device_of");
                format!("{}.to(device_of(given))", a[0])
            }
            "pow" => format!("torch.pow({}, {})", a[0], a[1]),
            "gelu" => format!("gelu({})", a[0]),
            "silu" | "swish" => format!("functional.silu({})", a[0]),
            "softplus" => format!("functional.softplus({}, threshold=40)", a[0]),
            "derf" => e.derivative("torch.erf", a),
            "dgelu" => e.derivative("gelu", a),
            "dsigmoid" => e.derivative("torch.sigmoid", a),
            "dsilu" => e.derivative("functional.silu", a),
            "abs" | "cos" | "erf" | "exp" | "expm1" | "log" | "relu" | "round" | "rsqrt"
            | "sigmoid" | "sin" | "sqrt" | "square" | "tanh"
                if !is_number(&a[0]) =>
            {
                format!("torch.{function}({})", a[0])
            }
            other => return unsupported(&step.value, format!("the function `{other}`")),
        })
    }

    fn softmax(&self, e: &mut Expressions<'_>, of: &str, function: &str, dims: &[usize]) -> String {
        let along = tuple(&dims.iter().map(ToString::to_string).collect::<Vec<_>>());
        match (function, dims) {
            ("logsumexp", _) => format!("torch.logsumexp({of}, dim={along})"),
            (_, [one]) => format!("torch.softmax({of}, dim={one})"),
            _ => {
                e.helper("softmax");
                format!("softmax({of}, {along})")
            }
        }
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

    fn stages(&self, e: &mut Expressions<'_>, axis: &str) -> String {
        collectives::group(e, &[axis.to_owned()])
    }

    fn has_loop_functions(&self) -> bool {
        false
    }

    fn iterated(&self, writer: &mut Writer<'_>, of: &Iterated<'_>) {
        loops::iterated(writer, of);
    }
}

/// Whether an argument is a number, which is no tensor.
fn is_number(text: &str) -> bool {
    text.ends_with("torch.inf") || text.parse::<f64>().is_ok()
}

/// `torch.bfloat16`: the name of a type in `PyTorch`.
pub(super) fn torch_dtype(name: &str) -> Result {
    let known = match name {
        "bool" | "int8" | "int32" => name,
        "f16" => "float16",
        "bf16" => "bfloat16",
        "f32" => "float32",
        "fp8" => "float8_e4m3fn",
        other => return unsupported("", format!("the type {other}")),
    };
    Ok(format!("torch.{known}"))
}
