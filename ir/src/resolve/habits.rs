//! Names of other frameworks: functions, dtypes and methods that programs do not have, each with
//! what to write.

use shardwise_grammar::ast::Call;

use crate::functions::{Composite, Function, ReduceFn};

/// Functions of other frameworks that are products.
pub(super) const PRODUCTS: [&str; 6] = ["matmul", "mm", "bmm", "dot", "linear", "dot_general"];

/// Functions of other frameworks, and what to write for them.
const FUNCTIONS: [(&[&str], &str); 38] = [
    (&PRODUCTS, "write the product: `In *D W`"),
    (&["einsum", "tensordot"], "write the product, with what it sums over: `In *D W`"),
    (
        &["transpose", "permute", "swapaxes", "moveaxis", "t"],
        "leave it out: dimensions go by name, not by place",
    ),
    (&["view", "flatten"], "write `Out[B, N, H] = reshape(x)`: the left side names the dimensions"),
    (&["squeeze", "unsqueeze", "expand_dims"], "leave it out: dimensions align by name"),
    (&["expand", "broadcast_to", "repeat", "tile"], "leave it out, or write `broadcast_D(x)`"),
    (&["concatenate", "cat", "stack", "hstack"], "write `concat_{P,Q->S}(a, b)`"),
    (&["embedding", "embed", "lookup", "take", "gather"], "write `take_V(Table, Ids)`"),
    (&["where"], "write `select(mask, a, b)`"),
    (&["clip", "clamp"], "write `minimum(maximum(x, 0.0), 1.0)`"),
    (&["leaky_relu"], "write `maximum(x, 0.01 * x)`"),
    (&["relu6"], "write `minimum(relu(x), 6.0)`"),
    (&["logical_and", "bitwise_and"], "write the product of the masks: `(x > 0.0) * (x < 1.0)`"),
    (&["logical_or", "bitwise_or"], "write `maximum(x > 0.0, y > 0.0)`"),
    (&["layer_norm", "layernorm"], "write `layernorm_D(x)`"),
    (&["rms_norm", "rmsnorm"], "write `rmsnorm_D(x)`"),
    (&["log_softmax"], "write `x - logsumexp_V(x)`"),
    (
        &["cross_entropy", "softmax_cross_entropy"],
        "write `logsumexp_V(Logits)` less the logit of the label: `sum_V(Logits * OneHot)`",
    ),
    (&["dropout"], "leave it out: it costs no communication"),
    (&["scaled_dot_product_attention", "sdpa", "flash_attention"], "write `attention(q, k, v)`"),
    (
        &["all_reduce", "psum", "allreduce"],
        "write `Out[B, F] = AllReduce_X(x)`, or leave it out: the compiler inserts collectives",
    ),
    (
        &["all_gather", "allgather"],
        "write `Out[B, F] = AllGather_X(x)`, or leave it out: the compiler inserts collectives",
    ),
    (
        &["reduce_scatter", "psum_scatter", "reducescatter"],
        "write `Out[B_X, F] = ReduceScatter_{X,B}(x)`, or leave it out: the compiler inserts \
            collectives",
    ),
    (
        &["all_to_all", "alltoall"],
        "write `Out[B, F_X] = AllToAll_{X,F}(x)`, or leave it out: the compiler inserts \
            collectives",
    ),
    (
        &["shard", "replicate", "partial", "with_sharding_constraint", "distribute_tensor"],
        "write the axes in brackets: `W[D, F_Y]`, or `W[D, F]` for a replicated value",
    ),
    (&["swiglu", "geglu", "glu"], "write the gate: `silu(In *D Wg) * (In *D Wu)`"),
    (
        &["zeros", "ones", "full", "zeros_like", "ones_like"],
        "write the number where it is used, as in `x + 1.0`, or as a value: `Z[B, D] = 0.0`",
    ),
    (
        &["randn", "rand", "normal", "uniform", "random"],
        "declare what is drawn: `input Noise[B, D]`; a plan does not depend on the numbers",
    ),
    (&["pow", "power"], "write `pow(x, 3.0)`, or `square(x)`"),
    (
        &["conv1d", "conv2d", "conv3d", "conv_general_dilated"],
        "write `conv_{H,W,R,S}(x, w)`, with the dimensions of the kernel after those of `x`: \
            `shardwise docs operations`",
    ),
    (
        &["make_mesh", "create_device_mesh", "init_device_mesh", "devicemesh", "abstractmesh"],
        "declare the mesh, with the size of each axis: `mesh X=4, Y=2`",
    ),
    (
        &["max_pool", "max_pool1d", "max_pool2d", "max_pool3d"],
        "write `max_R(windows_{H->P,R}(x, stride=2))`: `shardwise docs operations`",
    ),
    (
        &["avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "mean_pool"],
        "write `mean_R(windows_{H->P,R}(x, stride=2))`: `shardwise docs operations`; of all of a \
            dimension `mean_H(x)`",
    ),
    (
        &["batch_norm", "batchnorm", "batchnorm1d", "batchnorm2d"],
        "write `layernorm_{B,H}(x) * Scale + Bias`, along all dimensions but the channels",
    ),
    (&["arange", "range"], "write `iota_T()`: the places along `T`"),
    (&["astype", "to"], "write `cast<bf16>(x)`, or with another dtype"),
    (&["sort", "argsort"], "nothing sorts: `max_V(x)` and `argmax_V(x)` find the largest"),
    (&["prod", "cumprod"], "write `exp(sum_V(log(x)))`, where all of `x` is above zero"),
];

/// Dtypes of other frameworks, and what to write for them.
const DTYPES: [(&[&str], &str); 11] = [
    (&["float32", "fp32", "float", "single", "double", "float64", "f64", "tf32"], "f32"),
    (&["bfloat16", "bfloat"], "bf16"),
    (&["float16", "fp16", "half"], "f16"),
    (&["float8", "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "f8"], "fp8"),
    (&["fp8e4m3", "fp8_e4m3", "fp8_e5m2", "e4m3", "e5m2", "mxfp8"], "fp8"),
    (&["f8e4m3", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3b11fnuz"], "fp8"),
    (&["float4", "nvfp4", "mxfp4", "f4", "fp4_e2m1", "e2m1"], "fp4"),
    (&["int", "int64", "long", "i32", "i64", "uint32", "int16", "s16", "s32", "s64"], "int32"),
    (&["i8", "uint8", "u8", "s8", "byte"], "int8"),
    (&["i4", "uint4", "s4", "u4"], "int4"),
    (&["boolean", "bool_", "pred", "mask"], "bool"),
];

/// What to write for a function of another framework.
pub(super) fn function(call: &Call) -> Option<String> {
    if let Some((name, help)) = names(call).find_map(|name| Some((name.len(), listed(&name)?))) {
        return Some(along(call, name, help));
    }
    let name = names(call).next()?;
    let short = last(&name);
    let is_known = Function::find(&short).is_some()
        || Composite::ALL.iter().any(|known| known.name() == short)
        || ReduceFn::ALL.iter().any(|known| known.name() == short);
    (is_known && name.contains('.')).then(|| {
        let (owner, _) = name.rsplit_once('.').unwrap_or_default();
        format!("write `{short}(…)`, without `{owner}.`")
    })
}

/// The help for a function whose name has so many bytes, along the dimension that the call names
/// after it.
fn along(call: &Call, name: usize, help: &str) -> String {
    let whole = names(call).next().unwrap_or_default();
    match whole.get(name + 1..).filter(|dim| !dim.is_empty()) {
        Some(dim) => help.replace("_V(", &format!("_{dim}(")),
        None => help.to_owned(),
    }
}

/// Whether a function of another framework has a name that goes on in what is a subscript here:
/// `log_softmax_V`.
pub(super) fn goes_on(call: &Call) -> bool {
    let mut longer = names(call).filter(|name| name.len() > call.function.node.len());
    longer.any(|name| listed(&name).is_some())
}

/// The names that a function may have, the longest first: with the words of its subscript, of which
/// the last ones may be dimensions or axes (`all_gather_X`), and without.
fn names(call: &Call) -> impl Iterator<Item = String> {
    let function = call.function.node.as_str();
    let word = call.subscript.as_ref().and_then(|words| words.node.first());
    let whole = word.map_or(function.to_owned(), |word| format!("{function}_{}", word.node));
    let words = whole.match_indices('_').map(|(at, _)| at).filter(|at| *at >= function.len());
    let mut ends: Vec<usize> = words.chain([whole.len()]).collect();
    ends.reverse();
    ends.into_iter().map(move |end| whole[..end].to_owned())
}

/// A name without what owns it.
fn last(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).to_lowercase()
}

fn listed(name: &str) -> Option<&'static str> {
    let short = last(name);
    let named = |names: &[&str]| names.contains(&short.as_str());
    FUNCTIONS.iter().find(|(names, _)| named(names)).map(|(_, help)| *help)
}

/// The dtype that another framework calls `name`.
pub(super) fn dtype(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    let named = |names: &[&str]| names.contains(&lower.as_str());
    DTYPES.iter().find(|(names, _)| named(names)).map(|(_, dtype)| *dtype)
}

/// The value that `x.T` is a transpose of.
pub(super) fn transposed(name: &str) -> Option<&str> {
    [".T", ".mT", ".t", ".H"].into_iter().find_map(|end| name.strip_suffix(end))
}
