//! The mesh, arguments and results around what a device runs.

use indexmap::IndexSet;

use super::super::json::{PlanJson, TensorJson, ValueJson};
use super::super::walk::body::Walk;
use super::super::walk::structure::supported;
use super::super::walk::{Result, phases};
use super::array::{Array, tensor};
use super::timetable::slots;
use super::writer::{Writer, dtype};

/// An argument or a result: an array on all devices, and its block on one.
struct Border<'p> {
    value: &'p str,
    /// The axes of pending sums, which have a dimension each, the first ones.
    pending: usize,
    /// All of it.
    ty: String,
    /// One device's block, with a dimension of length one for each pending sum.
    block: Vec<u64>,
    sharding: String,
    /// The layers along the first dimension after those, where they are on stages.
    layers: Option<Vec<Option<usize>>>,
}

impl Border<'_> {
    /// Its attributes at the function: its sharding and its name.
    fn attributes(&self) -> String {
        let layers = self.layers.as_ref().map_or_else(String::new, |layers| {
            let number =
                |it: &Option<usize>| it.map_or_else(|| "-1".to_owned(), |it| it.to_string());
            let all: Vec<String> = layers.iter().map(number).collect();
            format!(", shardwise.layers = array<i64: {}>", all.join(", "))
        });
        let pending = if self.pending == 0 {
            String::new()
        } else {
            format!(", shardwise.pending = {} : i64", self.pending)
        };
        format!(
            "{{sdy.sharding = #sdy.sharding{}, shardwise.name = {:?}{pending}{layers}}}",
            self.sharding, self.value
        )
    }
}

/// The module of a plan.
pub(super) fn module(plan: &PlanJson) -> Result {
    supported(plan)?;
    let by_phase = phases::split(plan);
    let mut writer = Writer::new(&by_phase);
    let declared = by_phase.values.iter().filter_map(|value| Some((value, value.given.as_ref()?)));
    let arguments: Vec<Border<'_>> =
        declared.map(|(value, given)| border(&writer, value, given)).collect();
    let mut inside = Vec::new();
    for argument in &arguments {
        let dtype = dtype(plan, argument.value);
        let own = writer.builder.declared(argument.value, &argument.block, dtype);
        inside.push((own.name.clone(), own.ty()));
        let own = without_pending(&mut writer, &own, argument.pending);
        writer.given.insert(argument.value.to_owned(), own);
    }
    let (mut writer, outputs) = Walk::new(&by_phase, false, writer).run()?;
    let mut results = Vec::new();
    let mut returned = Vec::new();
    let mut known = IndexSet::new();
    for (of, array) in outputs {
        let value = by_phase.values.iter().find(|value| value.value == of.value);
        let Some(value) = value.filter(|value| known.insert(value.value.clone())) else { continue };
        let result = border(&writer, value, of);
        returned.push(writer.builder.reshape(&array, &result.block));
        results.push(result);
    }
    Ok(written(&by_phase, &writer, (&arguments, &inside), (&results, &returned)))
}

/// An argument without its dimensions of pending sums, of which a device has one element each.
fn without_pending(writer: &mut Writer<'_>, of: &Array, pending: usize) -> Array {
    let shape = of.shape[pending..].to_vec();
    writer.builder.reshape(of, &shape)
}

/// An argument or a result in a sharding.
fn border<'p>(writer: &Writer<'_>, value: &'p ValueJson, of: &TensorJson) -> Border<'p> {
    let mut all = Vec::new();
    let mut block = Vec::new();
    let mut split: Vec<String> = Vec::new();
    let axes = |axes: &[String]| {
        let axes: Vec<String> = axes.iter().map(|axis| format!("{axis:?}")).collect();
        format!("{{{}}}", axes.join(", "))
    };
    for axis in &of.unreduced {
        all.push(writer.devices.ways(std::slice::from_ref(axis)));
        block.push(1);
        split.push(axes(std::slice::from_ref(axis)));
    }
    let mut layers = None;
    for (count, stages) in writer.layers(value) {
        let Some(stages) = stages else {
            all.push(count);
            block.push(count);
            split.push(axes(&[]));
            continue;
        };
        let slots = slots(stages);
        let ways = writer.devices.ways(std::slice::from_ref(&stages.axis));
        let most = slots[0].len() as u64;
        // Stages without layers have slots, too.
        let mut order = slots.concat();
        order.resize((ways * most) as usize, None);
        layers = Some(order);
        all.push(ways * most);
        block.push(most);
        split.push(axes(std::slice::from_ref(&stages.axis)));
    }
    for dim in &of.dims {
        all.push(writer.size(&dim.dim));
        block.push(writer.length(of, &dim.dim));
        split.push(axes(&dim.axes));
    }
    let dtype = writer.dtype(&value.value);
    let sharding = format!("<@mesh, [{}]>", split.join(", "));
    let (value, pending) = (value.value.as_str(), of.unreduced.len());
    Border { value, pending, ty: tensor(&all, dtype), block, sharding, layers }
}

/// The text around the steps. On one device there is nothing to be divided: XLA takes a manual
/// computation only where there are several.
fn written(
    plan: &PlanJson,
    writer: &Writer<'_>,
    (arguments, inside): (&[Border<'_>], &[(String, String)]),
    (results, returned): (&[Border<'_>], &[Array]),
) -> String {
    let join = |parts: Vec<String>| parts.join(", ");
    let mesh = join(plan.mesh.iter().map(|it| format!("{:?}={}", it.axis, it.size)).collect());
    let axes = join(plan.mesh.iter().map(|it| format!("{:?}", it.axis)).collect());
    let types = |of: &[Border<'_>]| join(of.iter().map(|it| it.ty.clone()).collect());
    let shardings = |of: &[Border<'_>]| join(of.iter().map(|it| it.sharding.clone()).collect());
    let is_alone = writer.devices.count() == 1;
    let outer = |n: usize| if is_alone { inside[n].0.clone() } else { format!("%arg{n}") };
    let each = arguments.iter().enumerate();
    let given = each.map(|(n, it)| format!("    {}: {} {}", outer(n), it.ty, it.attributes()));
    let left = results.iter().map(|it| format!("    {} {}", it.ty, it.attributes()));
    let (given, left) = (given.collect::<Vec<_>>(), left.collect::<Vec<_>>());
    let (own, own_types) = (
        join(returned.iter().map(|it| it.name.clone()).collect()),
        join(returned.iter().map(Array::ty).collect()),
    );
    let name = printable(&plan.program);
    let head = format!(
        "// {name}: a plan of shardwise. What a device runs is in `sdy.manual_computation`, with \
         the plan's\n// collectives in its order; comments are the plan's statements.\n\
         module @\"{name}\" attributes {{mhlo.num_partitions = {} : i32, mhlo.num_replicas = 1 : \
         i32}} {{\n  sdy.mesh @mesh = <[{mesh}]>\n  func.func public @main(\n{}\n  ) -> (\n{}\n  ) \
         {{\n",
        writer.devices.count(),
        given.join(",\n"),
        left.join(",\n"),
    );
    let steps = format!("{}{}", writer.first, writer.builder.text);
    if is_alone {
        return format!("{head}{steps}      return {own} : {own_types}\n  }}\n}}\n");
    }
    let names = join((0..arguments.len()).map(outer).collect());
    let blocks = inside.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
    let out = join((0..results.len()).map(|n| format!("%out{n}")).collect());
    format!(
        "{head}    {out} = sdy.manual_computation({names})\n        in_shardings=[{}]\n        \
         out_shardings=[{}]\n        manual_axes={{{axes}}}\n        ({}) {{\n{steps}      \
         sdy.return {own} : {own_types}\n    }} : ({}) -> ({})\n    return {out} : {}\n  }}\n}}\n",
        shardings(arguments),
        shardings(results),
        join(blocks),
        types(arguments),
        types(results),
        types(results),
    )
}

/// The name of a program in a comment and a string: one line, without quotes and escapes.
fn printable(name: &str) -> String {
    let is_special = |letter: char| letter.is_control() || ['"', '\\'].contains(&letter);
    name.replace(is_special, "_")
}
