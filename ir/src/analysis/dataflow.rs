//! The dataflow graph: which statement produces what each statement reads, and what uses it.
//!
//! There is one graph type for both forms of the language. Over a [`Program`] a node is an
//! operation, over a [`Plan`] it is a step; declared values and outputs are nodes of both. An edge
//! leads from what produces a value to what uses it.
//!
//! The graph is derived data, built once when tables are final. An [`Analyzed`] program is one with
//! its graph: it can be read and not changed, so the two always agree, and whatever takes one has
//! both. A pass that rewrites takes the program out, and a new graph comes with the new program.
//! Alternatives: a graph inside the program would have to be kept up to date by every pass; a
//! producer noted at each value and users searched when they are asked for (as it was) has two
//! sources of truth, and every pass its own map of users.
//!
//! Statements are numbered as in their table, which is a topological order: a statement only reads
//! what an earlier one produces. What a block carries into its next iteration is the one kind of
//! edge that leads back ([`Use::NextIteration`]).

use std::fmt;
use std::ops::Deref;

use index_vec::IndexVec;
use indexmap::IndexMap;
pub use petgraph::Direction;
use petgraph::graph::DiGraph;
pub use petgraph::graph::NodeIndex;
use petgraph::visit::{Dfs, EdgeFiltered, EdgeRef, IntoNeighbors, Reversed, VisitMap, Visitable};
use rustc_hash::FxBuildHasher;

use crate::ids::{OpId, ValueId};
use crate::plan::{Materialization, Plan};
use crate::program::{Output, Program};
use crate::sharding::{Pin, Sharding};

/// A place where a value is produced or leaves. `S` is the id of a statement: [`OpId`] in a
/// program, the number of a step in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node<S> {
    /// An operation or a step.
    Statement(S),
    /// A value that no statement produces.
    Declared(ValueId),
    /// An output, by its place among the program's outputs.
    Output(u32),
}

/// How a node uses what another one produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// As an operand, by its position.
    Operand(u32),
    /// As what leaves the program or the block.
    Output,
    /// As the operand of its next iteration, from the output of a block to a loop-carried value.
    NextIteration,
}

/// Producers and uses of every value of a program, or of every materialization of a plan.
#[derive(Clone, Debug)]
pub struct Dataflow<S> {
    graph: DiGraph<Node<S>, Use>,
    /// For each value, what first produces it.
    definitions: IndexVec<ValueId, NodeIndex>,
}

/// A program whose tables are final, with its dataflow graph.
#[derive(Clone, Debug)]
pub struct Analyzed {
    program: Program,
    dataflow: Dataflow<OpId>,
}

impl Analyzed {
    /// The program's dataflow graph.
    pub fn dataflow(&self) -> &Dataflow<OpId> {
        &self.dataflow
    }

    /// The program alone, to be rewritten.
    pub fn into_program(self) -> Program {
        self.program
    }

    /// The program, to be rewritten, and the graph of what it was.
    pub fn into_parts(self) -> (Program, Dataflow<OpId>) {
        (self.program, self.dataflow)
    }
}

impl From<Program> for Analyzed {
    fn from(program: Program) -> Self {
        Self { dataflow: Dataflow::of_program(&program), program }
    }
}

impl Deref for Analyzed {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

impl fmt::Display for Analyzed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(f)
    }
}

impl Dataflow<OpId> {
    /// The graph of a program's operations.
    fn of_program(program: &Program) -> Self {
        let mut graph = Builder::new(program, program.ops.iter().map(|op| op.result));
        for (id, op) in program.ops.iter_enumerated() {
            for (position, operand) in op.operands.iter().enumerate() {
                let producer = graph.definitions[operand.value];
                graph.edge(producer, NodeIndex::new(id.index()), operand_use(position));
            }
        }
        for (place, output) in program.outputs.iter().enumerate() {
            let producer = graph.definitions[output.value];
            graph.output(program, place, output, [producer]);
        }
        graph.finish()
    }

    /// The operations that read a value, each with the position of the operand, in program order.
    pub fn uses_of(&self, value: ValueId) -> impl Iterator<Item = (OpId, usize)> + '_ {
        self.readers_of(self.definitions[value])
    }

    /// The outputs that are a value, by their places among the program's outputs.
    pub fn outputs_of(&self, value: ValueId) -> impl Iterator<Item = usize> + '_ {
        self.outputs_from(self.definitions[value])
    }
}

impl Dataflow<usize> {
    /// The graph of a plan's steps. A step reads the latest materialization that is like its
    /// operand; an output leaves with the latest that it accepts, and a carried value with any.
    pub fn of_plan(plan: &Plan) -> Self {
        let program = &plan.program;
        let mut graph = Builder::new(program, plan.steps.iter().map(|step| step.result.value));
        let declared: Vec<Materialization> = declared(program).collect();
        let mut latest: IndexMap<&Materialization, NodeIndex, FxBuildHasher> =
            declared.iter().map(|of| (of, graph.definitions[of.value])).collect();
        for (number, step) in plan.steps.iter().enumerate() {
            let node = NodeIndex::new(number);
            for (position, operand) in step.operands.iter().enumerate() {
                if let Some(&producer) = latest.get(operand) {
                    graph.edge(producer, node, operand_use(position));
                }
            }
            latest.insert(&step.result, node);
        }
        let mut made: IndexVec<ValueId, Vec<(&Sharding, NodeIndex)>> =
            program.values.iter().map(|_| Vec::new()).collect();
        for (of, producer) in latest {
            made[of.value].push((&of.sharding, producer));
        }
        for (place, output) in program.outputs.iter().enumerate() {
            let made = made[output.value].iter();
            let accepted = made.filter(|(sharding, _)| output.pin.accepts(sharding));
            let mut accepted: Vec<NodeIndex> = accepted.map(|&(_, producer)| producer).collect();
            // Plans print the latest. Statements are the first nodes.
            if program.carried_into(output).is_none() {
                let step = |node: &NodeIndex| (node.index() < plan.steps.len(), node.index());
                accepted = accepted.into_iter().max_by_key(step).into_iter().collect();
            }
            graph.output(program, place, output, accepted);
        }
        graph.finish()
    }
}

impl<S: Copy + From<usize> + Into<usize>> Dataflow<S> {
    /// The graph itself. Edges out of a node are in the order of their users, edges into a node in
    /// the order of its operands.
    pub fn graph(&self) -> &DiGraph<Node<S>, Use> {
        &self.graph
    }

    /// The values reachable from those of `from`, these included: forward to the values that depend
    /// on them, or back to those they depend on. Edges through operands are followed if `passes`
    /// accepts the statement and the position of the operand; edges into a next iteration are
    /// always followed.
    pub fn reachable(
        &self,
        from: impl IntoIterator<Item = ValueId>,
        direction: Direction,
        passes: impl Fn(S, usize) -> bool,
    ) -> IndexVec<ValueId, bool> {
        let graph = &self.graph;
        let passing =
            EdgeFiltered::from_fn(graph, |edge| match (graph[edge.target()], *edge.weight()) {
                (Node::Statement(reader), Use::Operand(position)) => {
                    passes(reader, position as usize)
                }
                _ => true,
            });
        let from = from.into_iter().map(|value| self.definitions[value]).collect();
        let visited = match direction {
            Direction::Outgoing => visited(&passing, from),
            Direction::Incoming => visited(Reversed(&passing), from),
        };
        self.definitions.iter().map(|node| visited.is_visited(node)).collect()
    }

    /// The statement that first produces a value; `None` for a declared one.
    pub fn definition(&self, value: ValueId) -> Option<S> {
        match self.graph[self.definitions[value]] {
            Node::Statement(producer) => Some(producer),
            Node::Declared(_) | Node::Output(_) => None,
        }
    }

    /// The node that first produces a value.
    pub fn node_of(&self, value: ValueId) -> NodeIndex {
        self.definitions[value]
    }

    /// The node that produces an operand of a statement; `None` where no step of a plan does.
    pub fn source(&self, of: S, operand: usize) -> Option<NodeIndex> {
        let mut operands = self.graph.edges_directed(index(of), Direction::Incoming);
        operands.find(|edge| *edge.weight() == operand_use(operand)).map(|edge| edge.source())
    }

    /// What produces an operand of a statement; `None` where no step of a plan does.
    pub fn producer(&self, of: S, operand: usize) -> Option<Node<S>> {
        self.source(of, operand).map(|node| self.graph[node])
    }

    /// The statements that produce what a statement reads, operand by operand.
    pub fn producers(&self, of: S) -> impl Iterator<Item = S> + '_ {
        let operands = self.graph.edges_directed(index(of), Direction::Incoming);
        operands.filter(|edge| matches!(edge.weight(), Use::Operand(_))).filter_map(|edge| {
            match self.graph[edge.source()] {
                Node::Statement(producer) => Some(producer),
                Node::Declared(_) | Node::Output(_) => None,
            }
        })
    }

    /// The statements that read what a statement produces, each with the position of the operand,
    /// in order.
    pub fn readers(&self, of: S) -> impl Iterator<Item = (S, usize)> + '_ {
        self.readers_of(index(of))
    }

    /// The outputs that leave with what a statement produces.
    pub fn outputs(&self, of: S) -> impl Iterator<Item = usize> + '_ {
        self.outputs_from(index(of))
    }

    /// The statements that read what a node produces, each with the position of the operand, in
    /// order.
    pub fn readers_of(&self, producer: NodeIndex) -> impl Iterator<Item = (S, usize)> + '_ {
        self.graph.edges(producer).filter_map(|edge| {
            match (self.graph[edge.target()], *edge.weight()) {
                (Node::Statement(reader), Use::Operand(position)) => {
                    Some((reader, position as usize))
                }
                _ => None,
            }
        })
    }

    /// The outputs that leave with what a node produces.
    pub fn outputs_from(&self, producer: NodeIndex) -> impl Iterator<Item = usize> + '_ {
        self.graph.edges(producer).filter_map(|edge| match self.graph[edge.target()] {
            Node::Output(place) => Some(place as usize),
            Node::Statement(_) | Node::Declared(_) => None,
        })
    }
}

fn operand_use(position: usize) -> Use {
    Use::Operand(position as u32)
}

/// The node of a statement: statements are the first nodes, in the order of their table.
pub fn index<S: Into<usize>>(statement: S) -> NodeIndex {
    NodeIndex::new(statement.into())
}

/// The nodes that a depth-first search from these visits.
fn visited<G>(graph: G, from: Vec<NodeIndex>) -> G::Map
where
    G: IntoNeighbors<NodeId = NodeIndex> + Visitable<NodeId = NodeIndex>,
{
    let mut search = Dfs::from_parts(from, graph.visit_map());
    while search.next(graph).is_some() {}
    search.discovered
}

/// The materializations that a plan starts from.
fn declared(program: &Program) -> impl Iterator<Item = Materialization> + '_ {
    let values = program.values.iter_enumerated().filter(|(_, value)| value.is_declared());
    values.filter_map(|(value, declared)| {
        let sharding = declared.declared_sharding.as_ref().and_then(Pin::exact)?;
        Some(Materialization { value, sharding })
    })
}

/// A graph whose edges are not yet added.
struct Builder<S> {
    graph: DiGraph<Node<S>, Use>,
    definitions: IndexVec<ValueId, NodeIndex>,
    edges: Vec<(NodeIndex, NodeIndex, Use)>,
}

impl<S: Copy + From<usize>> Builder<S> {
    /// The nodes of statements with these results, then those of declared values.
    fn new(program: &Program, results: impl Iterator<Item = ValueId>) -> Self {
        let mut graph = DiGraph::new();
        let mut definitions: IndexVec<ValueId, Option<NodeIndex>> =
            program.values.iter().map(|_| None).collect();
        for (number, result) in results.enumerate() {
            let node = graph.add_node(Node::Statement(S::from(number)));
            definitions[result].get_or_insert(node);
        }
        let declare = |(value, first): (ValueId, Option<NodeIndex>)| {
            let produced = first.filter(|_| !program.values[value].is_declared());
            produced.unwrap_or_else(|| graph.add_node(Node::Declared(value)))
        };
        let definitions = definitions.into_iter_enumerated().map(declare).collect();
        Self { graph, definitions, edges: Vec::new() }
    }

    fn edge(&mut self, from: NodeIndex, to: NodeIndex, how: Use) {
        self.edges.push((from, to, how));
    }

    /// The node of an output, what leaves with it, and what it becomes in the next iteration.
    fn output(
        &mut self,
        program: &Program,
        place: usize,
        output: &Output,
        producers: impl IntoIterator<Item = NodeIndex>,
    ) {
        let node = self.graph.add_node(Node::Output(place as u32));
        for producer in producers {
            self.edge(producer, node, Use::Output);
        }
        if let Some(entry) = program.carried_into(output) {
            self.edge(node, self.definitions[entry], Use::NextIteration);
        }
    }

    /// Adds the edges. A node's edges are a list that begins with the one added last, so they are
    /// added from the last to the first.
    fn finish(mut self) -> Dataflow<S> {
        for (from, to, how) in self.edges.into_iter().rev() {
            self.graph.add_edge(from, to, how);
        }
        Dataflow { graph: self.graph, definitions: self.definitions }
    }
}

#[cfg(test)]
mod tests {
    use petgraph::visit::EdgeRef;

    use super::{Dataflow, Direction, Node, Use};
    use crate::ids::OpId;
    use crate::program::Program;
    use crate::resolve::{Overrides, resolve};

    const LAYERS: &str = "hardware tpu-v5p
mesh X=2
dim B=8, D=8
input In[B_X, D]
repeat L=3 {
  carry x = In
  y = gelu(x) + x
  next x = y
}
Out = last(y)
output Out[B_X, D]
";

    fn program() -> Program {
        let (file, _) = shardwise_grammar::parse(LAYERS);
        let (program, diags) = resolve(&file, &Overrides::default());
        assert_eq!(diags, []);
        program.expect("a program without errors")
    }

    #[test]
    fn operations_are_in_topological_order_and_only_iterations_lead_back() {
        let dataflow = Dataflow::of_program(&program());
        let graph = dataflow.graph();
        let mut iterations = 0;
        for edge in graph.edge_references() {
            match (graph[edge.source()], graph[edge.target()], *edge.weight()) {
                (Node::Statement(from), Node::Statement(to), _) => assert!(from < to),
                (Node::Output(_), Node::Statement(_), Use::NextIteration) => iterations += 1,
                (from, to, how) => assert!(
                    matches!(from, Node::Declared(_)) || how == Use::Output,
                    "{from:?} {to:?}"
                ),
            }
        }
        assert_eq!(iterations, 1);
    }

    #[test]
    fn uses_and_producers_are_in_program_order() {
        let program = program();
        let dataflow = Dataflow::of_program(&program);
        let entry = program.ops[OpId::new(0)].result;
        let uses: Vec<(OpId, usize)> = dataflow.uses_of(entry).collect();
        assert_eq!(uses, [(OpId::new(1), 0), (OpId::new(2), 1)]);
        let producers: Vec<OpId> = dataflow.producers(OpId::new(2)).collect();
        assert_eq!(producers, [OpId::new(1), OpId::new(0)]);
        let leaving = program.outputs.iter().position(|output| output.yields_to.is_none());
        let result = program.outputs[leaving.expect("an output")].value;
        assert_eq!(dataflow.outputs_of(result).collect::<Vec<_>>(), [leaving.unwrap_or_default()]);
    }

    #[test]
    fn values_are_reached_through_operands_that_pass_and_through_iterations() {
        let program = program();
        let dataflow = Dataflow::of_program(&program);
        let [entry, _, sum] = [0, 1, 2].map(|op| program.ops[OpId::new(op)].result);
        let input = program.ops[OpId::new(0)].operands[0].value;
        let reached =
            |from, direction, passes: bool| dataflow.reachable([from], direction, |_, _| passes);
        assert!(reached(input, Direction::Outgoing, true)[sum]);
        assert!(!reached(input, Direction::Outgoing, false)[sum]);
        assert!(reached(sum, Direction::Outgoing, false)[entry], "carried into the next layer");
        assert!(reached(sum, Direction::Incoming, true)[input]);
        assert!(!reached(sum, Direction::Outgoing, true)[input]);
    }
}
