//! The dataflow of a plan as a graph: what is declared, what is done, and which materialisation
//! flows where.
//!
//! The graph is built for whoever draws or walks a plan; tables keep ids, not graph indices, so
//! nothing of it is ever stored in them.

use indexmap::IndexMap;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::plan::{Materialization, Plan};
use crate::program::Program;
use crate::sharding::Pin;

/// A place where a materialisation comes to be or leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A declared value, by its number in the program.
    Declared(crate::ids::ValueId),
    /// A step, by its place in the plan.
    Step(usize),
    /// An output, by its place among the outputs.
    Output(usize),
}

/// Nodes in program order, an edge for every use; its weight is what flows.
pub fn dataflow(plan: &Plan) -> DiGraph<Node, Materialization> {
    let mut graph = DiGraph::new();
    let mut given: IndexMap<Materialization, NodeIndex> = declared(&plan.program, &mut graph);
    for (number, step) in plan.steps.iter().enumerate() {
        let node = graph.add_node(Node::Step(number));
        for operand in &step.operands {
            if let Some(&from) = given.get(operand) {
                graph.add_edge(from, node, operand.clone());
            }
        }
        given.insert(step.result.clone(), node);
    }
    for (number, output) in plan.program.outputs.iter().enumerate() {
        let leaving = given
            .iter()
            .rev()
            .find(|(m, _)| m.value == output.value && output.pin.accepts(&m.sharding));
        if let Some((material, &from)) = leaving {
            let material = material.clone();
            let node = graph.add_node(Node::Output(number));
            graph.add_edge(from, node, material);
        }
    }
    graph
}

fn declared(
    program: &Program,
    graph: &mut DiGraph<Node, Materialization>,
) -> IndexMap<Materialization, NodeIndex> {
    let mut given = IndexMap::new();
    for (value, declared) in
        program.values.iter_enumerated().filter(|(_, value)| value.producer.is_none())
    {
        if let Some(sharding) = declared.declared_sharding.as_ref().and_then(Pin::exact) {
            given
                .insert(Materialization { value, sharding }, graph.add_node(Node::Declared(value)));
        }
    }
    given
}
