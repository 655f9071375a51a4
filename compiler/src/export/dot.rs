//! The plan's dataflow in Graphviz' DOT: boxes for local operations, ellipses for collectives (red
//! where critical), what flows on the arrows.

use std::fmt::Write as _;

use shardwise_ir::dataflow::{Node, dataflow};
use shardwise_ir::plan::StepKind;
use shardwise_ir::print;
use shardwise_ir::program::CollectiveKind;

use super::json;
use crate::Planned;
use crate::display::units;

/// The DOT text.
pub(crate) fn dot(planned: &Planned) -> String {
    let graph = dataflow(&planned.plan);
    let mut out = format!(
        "digraph {} {{\n  node [fontname=\"monospace\"];\n  edge [fontname=\"monospace\"];\n",
        quoted(&planned.name)
    );
    for index in graph.node_indices() {
        let _ = writeln!(out, "  n{} [{}];", index.index(), attributes(planned, graph[index]));
    }
    for edge in graph.edge_indices() {
        if let Some((from, to)) = graph.edge_endpoints(edge) {
            let label = quoted(&print::materialization(&planned.plan.program, &graph[edge]));
            let _ = writeln!(out, "  n{} -> n{} [label={label}];", from.index(), to.index());
        }
    }
    out.push_str("}\n");
    out
}

fn attributes(planned: &Planned, node: Node) -> String {
    let program = &planned.plan.program;
    match node {
        Node::Declared(value) => {
            format!("shape=plaintext, label={}", quoted(&program.values[value].name))
        }
        Node::Output(number) => {
            let name = &program.values[program.outputs[number].value].name;
            format!("shape=plaintext, label={}", quoted(&format!("output {name}")))
        }
        Node::Step(number) => {
            let time = units::seconds(planned.report.steps[number].seconds);
            match &planned.plan.steps[number].kind {
                StepKind::Local(op) if program.is_stage_send(&program.ops[*op]) => {
                    let axis = program
                        .pipeline(program.ops[*op].repeat)
                        .map_or("", |of| program.mesh.axes[of.axis].name.as_str());
                    format!(
                        "shape=ellipse, label={}",
                        quoted(&format!("{}_{axis}\n{time}", CollectiveKind::Permute.name()))
                    )
                }
                StepKind::Local(op) => {
                    format!(
                        "shape=box, label={}",
                        quoted(&format!("{}\n{time}", json::local_kind(&program.ops[*op].kind)))
                    )
                }
                StepKind::Collective(collective, _) => {
                    let axes = print::axis_word(&program.mesh, &collective.axes);
                    let colour =
                        if planned.report.schedule.critical[number] { ", color=red" } else { "" };
                    format!(
                        "shape=ellipse{colour}, label={}",
                        quoted(&format!("{}_{axes}\n{time}", collective.kind.name()))
                    )
                }
            }
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
