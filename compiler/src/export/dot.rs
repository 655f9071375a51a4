//! The plan's dataflow in Graphviz' DOT: boxes for local operations, ellipses for collectives (red
//! where critical), the materializations on the arrows. petgraph writes it.

use petgraph::dot::{Config, Dot};
use petgraph::graph::{DiGraph, EdgeIndex, EdgeReference, NodeIndex};
use petgraph::visit::EdgeRef;
use shardwise_ir::dataflow::{Node, Use};
use shardwise_ir::plan::{Materialization, StepKind};
use shardwise_ir::print::{self, Printer};
use shardwise_ir::program::CollectiveKind;
use shardwise_ir::sharding::Pin;

use crate::Planned;
use crate::display::units;

/// The dataflow graph with the attributes of each node and each edge.
type Drawing = DiGraph<String, String>;

/// The DOT text.
pub(crate) fn dot(planned: &Planned) -> String {
    let drawing = drawing(planned);
    let node = |_: &Drawing, (_, attributes): (NodeIndex, &String)| attributes.clone();
    let edge = |_: &Drawing, edge: EdgeReference<'_, String>| edge.weight().clone();
    let config = [Config::GraphContentOnly, Config::NodeNoLabel, Config::EdgeNoLabel];
    let content = Dot::with_attr_getters(&drawing, &config, &edge, &node);
    format!(
        "digraph {} {{\n    node [ fontname=\"monospace\" ]\n    edge [ fontname=\"monospace\" ]\n\
            {content:?}}}\n",
        quoted(&planned.name)
    )
}

/// What is drawn: all statements and declared values, the outputs of the program, and all edges
/// except those into the next iteration.
fn drawing(planned: &Planned) -> Drawing {
    let graph = planned.plan.dataflow().graph();
    let leaves_by = |output: NodeIndex| {
        let incoming = graph.edges_directed(output, petgraph::Direction::Incoming);
        incoming.last().map(|edge| edge.id())
    };
    let is_drawn = |edge: EdgeIndex| match (graph.edge_endpoints(edge), graph[edge]) {
        // Of several materializations that an output accepts, the latest is drawn.
        (Some((_, output)), Use::Output) => leaves_by(output) == Some(edge),
        (_, how) => how != Use::NextIteration,
    };
    graph.filter_map(
        |index, node| {
            let leaves = !matches!(node, Node::Output(_)) || leaves_by(index).is_some();
            leaves.then(|| attributes(planned, *node))
        },
        |index, how| {
            let (from, to) = graph.edge_endpoints(index).filter(|_| is_drawn(index))?;
            let flowing = flowing(planned, graph[from], graph[to], *how)?;
            let label = print::materialization(&planned.plan.program, &flowing);
            Some(format!("label={}", quoted(&label)))
        },
    )
}

/// The materialization that an edge stands for.
fn flowing(
    planned: &Planned,
    from: Node<usize>,
    to: Node<usize>,
    how: Use,
) -> Option<Materialization> {
    let plan = &planned.plan;
    match (from, to, how) {
        (_, Node::Statement(step), Use::Operand(position)) => {
            Some(plan.steps[step].operands[position as usize].clone())
        }
        (Node::Statement(step), ..) => Some(plan.steps[step].result.clone()),
        (Node::Declared(value), ..) => {
            let declared = plan.program.values[value].declared_sharding.as_ref();
            Some(Materialization { value, sharding: declared.and_then(Pin::exact)? })
        }
        _ => None,
    }
}

fn attributes(planned: &Planned, node: Node<usize>) -> String {
    let program = &planned.plan.program;
    match node {
        Node::Declared(value) => {
            format!("shape=plaintext, label={}", quoted(&program.values[value].name))
        }
        Node::Output(number) => {
            let name = &program.values[program.outputs[number as usize].value].name;
            format!("shape=plaintext, label={}", quoted(&format!("output {name}")))
        }
        Node::Statement(number) => step_attributes(planned, number),
    }
}

fn step_attributes(planned: &Planned, number: usize) -> String {
    let program = &planned.plan.program;
    let time = units::seconds(planned.report.steps[number].seconds);
    let (shape, name) = match &planned.plan.steps[number].kind {
        StepKind::Local(op) if program.is_stage_send(&program.ops[*op]) => {
            let axis = program
                .pipeline(program.ops[*op].repeat)
                .map_or("", |of| program.mesh.axes[of.axis].name.as_str());
            ("ellipse", format!("{}_{axis}", CollectiveKind::Permute.name()))
        }
        StepKind::Local(op) => {
            let is_sent = program.ops[*op].host_transfer().is_some();
            let shape = if is_sent { "ellipse" } else { "box" };
            (shape, Printer::new(program).operation_name(*op))
        }
        StepKind::Collective(collective, _) => {
            let axes = print::axis_word(&program.mesh, &collective.axes);
            let is_critical = planned.report.schedule.critical[number];
            let shape = if is_critical { "ellipse, color=red" } else { "ellipse" };
            (shape, format!("{}_{axes}", collective.kind.name()))
        }
    };
    format!("shape={shape}, label={}", quoted(&format!("{name}\n{time}")))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
