//! Terminals that a tree reaches in no time, whatever is chosen: they are no terminals.
//!
//! A block of a replicated tensor is sliced on the device, so what statements read of a replicated
//! input costs nothing. Its tree couples all of them nevertheless: a table of it has an entry for
//! each combination of what they read. Without these terminals the cost is the same, for a tree to
//! the others can be extended to them at no cost, and statements that nothing else couples can be
//! minimised alone. What is left of such a terminal is its count of steps, which breaks ties: the
//! choices pay for their own, as if no two shared one.

use std::borrow::Cow;

use crate::solver::dreyfus_wagner::Terminal;
use crate::solver::graph::{Graph, Node};
use crate::solver::model::{End, Model, Placement, SteinerTerm, Term};
use crate::solver::weight::Weight;

/// The same model without terminals that are free: equal up to the counts of steps.
pub(crate) fn removed(model: &Model) -> Cow<'_, Model> {
    let mut reduced = Cow::Borrowed(model);
    for (number, term) in model.terms.iter().enumerate() {
        let Term::Tree(tree) = term else { continue };
        let Some(root) = only_root(tree) else { continue };
        let graph = &model.graphs[tree.graph];
        let steps_to = |end: &End<Terminal>| {
            let once = free_steps(graph, root, end.placement()?)?;
            Some(once.into_iter().map(|steps| steps.times(tree.multiplicity)).collect())
        };
        let steps: Vec<Option<Vec<Weight>>> = tree.terminals.iter().map(steps_to).collect();
        if steps.iter().all(Option::is_none) {
            continue;
        }
        let Model { terms, unary, .. } = reduced.to_mut();
        let mut left = Vec::new();
        for (end, steps) in tree.terminals.iter().zip(steps) {
            match (end.placement(), steps) {
                (Some(free), Some(steps)) => add(&mut unary[free.variable], &steps),
                _ => left.push(end.clone()),
            }
        }
        terms[number] = Term::Tree(SteinerTerm { terminals: left, ..tree.clone() });
    }
    reduced
}

/// The root, if every choice has the same and nothing has to be passed after it.
fn only_root(tree: &SteinerTerm) -> Option<Node> {
    match &tree.root {
        _ if tree.via.is_some() => None,
        End::Fixed(node) => Some(*node),
        End::Chosen(placement) => placement.only_node(),
    }
}

/// For each choice of a terminal, the steps to it, if all that can be reached are in no time.
fn free_steps(graph: &Graph, root: Node, terminal: &Placement) -> Option<Vec<Weight>> {
    let distances = graph.distances_from(root);
    let steps: Vec<Weight> = terminal.nodes.iter().map(|&node| distances[node as Node]).collect();
    let is_free = |steps: &Weight| !steps.is_finite() || steps.femtoseconds() == 0.0;
    steps.iter().all(is_free).then_some(steps)
}

fn add(costs: &mut [Weight], more: &[Weight]) {
    costs.iter_mut().zip(more).for_each(|(cost, &more)| *cost = *cost + more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_root_reaches_in_no_time_is_no_terminal() {
        let (free, costly) = (Weight::step(0.0), Weight::step(1.0));
        let graph = Graph::new(&[vec![(1, free), (2, costly)], vec![(3, free)], vec![], vec![]]);
        let at =
            |variable, nodes: [u32; 2]| End::Chosen(Placement { variable, nodes: nodes.into() });
        let terminals = vec![at(0, [1, 3]), at(1, [1, 2]), at(2, [0, 1])];
        let tree =
            SteinerTerm { graph: 0, root: End::Fixed(0), via: None, terminals, multiplicity: 3 };
        let model = Model {
            unary: vec![vec![Weight::ZERO; 2]; 3],
            terms: vec![Term::Tree(tree)],
            graphs: vec![graph.into()],
            ..Model::default()
        };
        let reduced = removed(&model);
        let Term::Tree(left) = &reduced.terms[0] else { unreachable!("it was a tree") };
        let variables: Vec<usize> = left.scope();
        assert_eq!(variables, [1]);
        assert_eq!(reduced.unary[0], [free.times(3), free.times(6)]);
        assert_eq!(reduced.unary[2], [Weight::ZERO, free.times(3)]);
    }
}
