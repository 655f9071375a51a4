//! The dataflow of a plan: a node for each statement and each declared value, with the sharding of
//! what it yields below it, which is that of the edges that leave it.

use std::fmt::Write as _;

use askama::Template;
use petgraph::visit::EdgeRef;
use shardwise_ir::dataflow::{Node, Use};
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::StepKind;
use shardwise_ir::print::Printer;
use shardwise_ir::sharding::{Pin, Sharding};

use super::layered::{self, LAYER};
use crate::Planned;
use crate::display::units;
use crate::planned::step_name::{category, goes_back, step_name};

/// Of a larger graph the beginning is drawn, which the rest mostly repeats: its statements up to
/// this number, and the declared values that they read.
const MOST_NODES: usize = 1500;
const BEGINNING: usize = 300;
/// The height of a node, and the width of a character.
const HEIGHT: f64 = 36.0;
const CHARACTER: f64 = 6.7;
/// Longer names are cut.
const LONGEST_NAME: usize = 34;

/// A node.
struct Drawn {
    x: f64,
    y: f64,
    width: f64,
    class: String,
    name: String,
    time: String,
    sharding: String,
    step: Option<usize>,
    value: Option<String>,
}

/// The dataflow graph.
#[derive(Template)]
#[template(path = "graph.html")]
pub(super) struct Graph {
    nodes: Vec<Drawn>,
    edges: Vec<String>,
    width: f64,
    height: f64,
    node_height: f64,
    /// Edges that are left out, see [`layered`].
    long: usize,
    /// The statements that are not drawn.
    left_out: usize,
}

/// The dataflow graph of a plan.
pub(super) fn graph(planned: &Planned) -> Graph {
    let dataflow = planned.plan.dataflow().graph();
    let is_small = dataflow.node_count() <= MOST_NODES;
    let last = if is_small { usize::MAX } else { BEGINNING };
    let is_drawn = |node| matches!(dataflow[node], Node::Statement(number) if number < last);
    // Declared values first, then the steps in order, so that edges lead to greater numbers.
    let steps = dataflow.node_indices().filter(|&node| is_drawn(node));
    let declared = dataflow.node_indices().filter(|&node| {
        matches!(dataflow[node], Node::Declared(_)) && dataflow.neighbors(node).any(is_drawn)
    });
    let order: Vec<_> = declared.chain(steps).collect();
    let mut number = vec![None; dataflow.node_count()];
    for (place, node) in order.iter().enumerate() {
        number[node.index()] = Some(place);
    }
    let mut edges: Vec<(usize, usize)> = dataflow
        .edge_references()
        .filter(|edge| matches!(edge.weight(), Use::Operand(_)))
        .filter_map(|edge| Some((number[edge.source().index()]?, number[edge.target().index()]?)))
        .filter(|(from, to)| from < to)
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let mut nodes: Vec<Drawn> =
        order.iter().filter_map(|&node| drawn(planned, dataflow[node])).collect();
    let widths: Vec<f64> = nodes.iter().map(|node| node.width).collect();
    let drawing = layered::draw(&widths, &edges);
    for (node, &(x, layer)) in nodes.iter_mut().zip(&drawing.nodes) {
        (node.x, node.y) = (x, layer as f64 * LAYER);
    }
    Graph {
        nodes,
        edges: drawing.edges.iter().map(|(_, route)| path(route)).collect(),
        width: drawing.width.ceil(),
        height: drawing.layers as f64 * LAYER,
        node_height: HEIGHT,
        long: edges.len() - drawing.edges.len(),
        left_out: planned.plan.steps.len().saturating_sub(last),
    }
}

fn drawn(planned: &Planned, node: Node<usize>) -> Option<Drawn> {
    let program = &planned.plan.program;
    let printer = Printer::new(program);
    let brackets = |value: ValueId, sharding: &Sharding| {
        printer.sharding(&program.values[value].dims, sharding)
    };
    let mut drawn = match node {
        Node::Statement(number) => {
            let (step, cost) = (&planned.plan.steps[number], &planned.report.steps[number]);
            let is_collective = matches!(step.kind, StepKind::Collective(..));
            let class = match category(step, cost) {
                "compute" if goes_back(program, step) => "backward",
                category => category,
            };
            let critical = is_collective && planned.report.schedule.critical[number];
            Drawn {
                class: format!("k-{class}{}", if critical { " critical" } else { "" }),
                name: short(&step_name(program, step)),
                time: if cost.seconds > 0.0 { units::seconds(cost.seconds) } else { String::new() },
                sharding: brackets(step.result.value, &step.result.sharding),
                step: Some(number),
                value: None,
                ..Drawn::empty()
            }
        }
        Node::Declared(value) => Drawn {
            class: "declared".to_owned(),
            name: short(&program.values[value].name),
            sharding: (program.values[value].declared_sharding.as_ref().and_then(Pin::exact))
                .map_or_else(String::new, |sharding| brackets(value, &sharding)),
            value: Some(program.values[value].name.clone()),
            ..Drawn::empty()
        },
        Node::Output(_) => return None,
    };
    let characters = drawn.name.chars().count().max(drawn.sharding.chars().count()).max(6);
    drawn.width = (CHARACTER * characters as f64 + 16.0).ceil();
    Some(drawn)
}

impl Drawn {
    fn empty() -> Self {
        Self {
            x: 0.0,
            y: 0.0,
            width: 0.0,
            class: String::new(),
            name: String::new(),
            time: String::new(),
            sharding: String::new(),
            step: None,
            value: None,
        }
    }

    /// The base line of the name, which is alone where there is no time.
    fn name_y(&self) -> f64 {
        self.y + if self.time.is_empty() { 22.0 } else { 15.0 }
    }

    fn left(&self) -> f64 {
        (10.0 * (self.x - self.width / 2.0)).round() / 10.0
    }
}

fn short(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    name.chars().take(LONGEST_NAME - 1).chain(['…']).collect()
}

/// An edge as a curve from below its source to its target, straight where it passes a layer.
fn path(route: &[(f64, usize)]) -> String {
    let top = |layer: usize| layer as f64 * LAYER;
    let mut path = String::new();
    for (at, &(x, layer)) in route.iter().enumerate() {
        if at == 0 {
            let _ = write!(path, "M{x} {}", top(layer) + HEIGHT + 16.0);
            continue;
        }
        let (from, to) = (top(layer - 1) + HEIGHT + 16.0, top(layer));
        let middle = f64::midpoint(from, to);
        let _ = write!(path, "C{} {middle} {x} {middle} {x} {to}", route[at - 1].0);
        if at + 1 < route.len() {
            let _ = write!(path, "V{}", to + HEIGHT + 16.0);
        }
    }
    path
}
