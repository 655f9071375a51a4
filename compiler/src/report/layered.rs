//! Draws a directed acyclic graph in layers, after Sugiyama, Tagawa and Toda (1981): a node is one
//! layer below the lowest node that it depends on, nodes of a layer are ordered by the barycentres
//! of their neighbours to have few crossings, and then moved above and below each other.
//!
//! Edges over more than [`LONGEST`] layers are left out: in the graph of a training step the reads
//! of weights and activations by the backward part would cover everything else. The reader of such
//! an edge names what it reads. No crate is used: those for Rust either run Graphviz or have not
//! been kept; this is a hundred lines.

/// Edges over more layers are not drawn.
pub(super) const LONGEST: usize = 6;

/// Pixels from the top of a layer to that of the next, and between nodes.
pub(super) const LAYER: f64 = 92.0;
const GAP: f64 = 18.0;
/// The width of an edge that passes a layer.
const PASS: f64 = 14.0;
/// How often the layers are ordered, and the nodes moved.
const SWEEPS: usize = 12;

/// A node of a layer: one of the graph, or a place where an edge passes.
#[derive(Clone, Debug)]
struct Item {
    width: f64,
    layer: usize,
    /// The middle, pixels.
    x: f64,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// The drawn graph.
pub(super) struct Drawing {
    /// The middle of each node, and its layer.
    pub(super) nodes: Vec<(f64, usize)>,
    /// For each edge that is drawn its number and the middles that it passes, its ends included.
    pub(super) edges: Vec<(usize, Vec<(f64, usize)>)>,
    pub(super) width: f64,
    pub(super) layers: usize,
}

/// Draws nodes of these widths and these edges, which lead to nodes with greater numbers.
pub(super) fn draw(widths: &[f64], edges: &[(usize, usize)]) -> Drawing {
    let layers = layers(widths.len(), edges);
    let mut items: Vec<Item> = (widths.iter().zip(&layers))
        .map(|(&width, &layer)| Item { width, layer, x: 0.0, above: Vec::new(), below: Vec::new() })
        .collect();
    let mut routes = Vec::new();
    for (number, &(from, to)) in edges.iter().enumerate() {
        if layers[to] - layers[from] > LONGEST {
            continue;
        }
        let mut route = vec![from];
        for layer in layers[from] + 1..layers[to] {
            items.push(Item { width: PASS, layer, x: 0.0, above: Vec::new(), below: Vec::new() });
            route.push(items.len() - 1);
        }
        route.push(to);
        for pair in route.windows(2) {
            items[pair[0]].below.push(pair[1]);
            items[pair[1]].above.push(pair[0]);
        }
        routes.push((number, route));
    }
    let mut rows = vec![Vec::new(); layers.iter().max().map_or(0, |last| last + 1)];
    for (number, item) in items.iter().enumerate() {
        rows[item.layer].push(number);
    }
    order(&mut rows, &mut items);
    align(&rows, &mut items);
    let left = items.iter().map(|item| item.x - item.width / 2.0).fold(f64::INFINITY, f64::min);
    let right = items.iter().map(|item| item.x + item.width / 2.0).fold(0.0, f64::max);
    let at = |item: &usize| (((items[*item].x - left) * 10.0).round() / 10.0, items[*item].layer);
    Drawing {
        nodes: (0..widths.len()).map(|node| at(&node)).collect(),
        edges: routes.iter().map(|(edge, route)| (*edge, route.iter().map(at).collect())).collect(),
        width: if left.is_finite() { right - left } else { 0.0 },
        layers: rows.len(),
    }
}

/// The layer of each node: nodes that nothing reads are below all that they depend on, all others
/// directly above their first reader. So a weight is gathered where it is used.
fn layers(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layers = vec![0; count];
    let mut by_target: Vec<&(usize, usize)> = edges.iter().collect();
    by_target.sort_by_key(|(_, to)| *to);
    for &&(from, to) in &by_target {
        layers[to] = layers[to].max(layers[from] + 1);
    }
    let mut first_reader = vec![usize::MAX; count];
    let mut by_source = by_target;
    by_source.sort_by_key(|(from, _)| usize::MAX - from);
    let mut edges = by_source.into_iter().peekable();
    for node in (0..count).rev() {
        while let Some((_, to)) = edges.next_if(|(from, _)| *from == node) {
            first_reader[node] = first_reader[node].min(layers[*to]);
        }
        if first_reader[node] < usize::MAX {
            layers[node] = first_reader[node] - 1;
        }
    }
    layers
}

/// Orders the nodes of each layer by the mean position of their neighbours, downwards and upwards
/// in turns.
fn order(rows: &mut [Vec<usize>], items: &mut [Item]) {
    place_in_order(rows, items);
    for sweep in 0..SWEEPS {
        let downwards = sweep % 2 == 0;
        let count = rows.len();
        for step in 0..count {
            let row = &mut rows[if downwards { step } else { count - 1 - step }];
            let key = |item: &usize| {
                let item = &items[*item];
                mean(if downwards { &item.above } else { &item.below }, items).unwrap_or(item.x)
            };
            let mut keyed: Vec<(f64, usize)> = row.iter().map(|item| (key(item), *item)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            *row = keyed.into_iter().map(|(_, item)| item).collect();
            pack(row, items);
        }
    }
}

fn place_in_order(rows: &[Vec<usize>], items: &mut [Item]) {
    for row in rows {
        pack(row, items);
    }
}

/// Places a row without space between its nodes, its middle at 0.
fn pack(row: &[usize], items: &mut [Item]) {
    let total: f64 = row.iter().map(|&item| items[item].width + GAP).sum();
    let mut left = -total / 2.0;
    for &item in row {
        items[item].x = left + f64::midpoint(items[item].width, GAP);
        left += items[item].width + GAP;
    }
}

/// The mean position of some nodes; `None` for none.
fn mean(of: &[usize], items: &[Item]) -> Option<f64> {
    let sum: f64 = of.iter().map(|&item| items[item].x).sum();
    (!of.is_empty()).then(|| sum / of.len() as f64)
}

/// Moves nodes towards their neighbours, keeping their order and distances.
fn align(rows: &[Vec<usize>], items: &mut [Item]) {
    for sweep in 0..SWEEPS {
        let upwards = sweep % 2 == 1;
        for step in 0..rows.len() {
            let row = &rows[if upwards { rows.len() - 1 - step } else { step }];
            let wanted: Vec<f64> = row
                .iter()
                .map(|&item| {
                    let item = &items[item];
                    let near = if upwards { &item.below } else { &item.above };
                    mean(near, items).unwrap_or(item.x)
                })
                .collect();
            spread(row, &wanted, items);
        }
    }
}

/// Places a row as near to the wanted positions as the distances allow: the least squares, weighted
/// so that a chain of operations stays straight and the weights that it reads make way. Without its
/// distances a row is a sequence that must not decrease, so pooling neighbours that do is exact
/// (Ayer et al., 1955).
fn spread(row: &[usize], wanted: &[f64], items: &mut [Item]) {
    let mut distances = vec![0.0; row.len()];
    for at in 1..row.len() {
        let [before, own] = [row[at - 1], row[at]].map(|item| items[item].width);
        distances[at] = distances[at - 1] + f64::midpoint(before, own) + GAP;
    }
    // Pools: weighted sum of positions, weight, and number of nodes.
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for (at, &item) in row.iter().enumerate() {
        let degree = (items[item].above.len() + items[item].below.len()).max(1) as f64;
        let weight = degree * degree;
        let mut pool = (weight * (wanted[at] - distances[at]), weight, 1);
        while let Some(last) = pools.pop_if(|last| last.0 / last.1 > pool.0 / pool.1) {
            pool = (pool.0 + last.0, pool.1 + last.1, pool.2 + last.2);
        }
        pools.push(pool);
    }
    let starts = pools.iter().flat_map(|&(sum, weight, count)| vec![sum / weight; count]);
    for ((&item, start), distance) in row.iter().zip(starts).zip(distances) {
        items[item].x = start + distance;
    }
}

#[cfg(test)]
mod tests {
    use super::{GAP, draw};

    #[test]
    fn nodes_of_a_layer_do_not_overlap_and_edges_go_down() {
        let widths: Vec<f64> = (0..40).map(|node| 40.0 + f64::from(node % 7) * 20.0).collect();
        let edges: Vec<(usize, usize)> = (1..40)
            .flat_map(|to| [(to / 3, to), (to / 2, to), (to - 1 - to % 5 / 3, to)])
            .collect();
        let edges: Vec<(usize, usize)> = edges.into_iter().filter(|(from, to)| from < to).collect();
        let drawing = draw(&widths, &edges);
        for (a, one) in drawing.nodes.iter().enumerate() {
            for (b, other) in drawing.nodes.iter().enumerate().filter(|(b, _)| *b > a) {
                let apart = f64::midpoint(widths[a], widths[b]) + GAP - 0.2;
                assert!(one.1 != other.1 || (one.0 - other.0).abs() >= apart, "{a} {b}");
            }
        }
        for (edge, route) in &drawing.edges {
            let (from, to) = edges[*edge];
            assert_eq!(
                (route[0], route[route.len() - 1]),
                (drawing.nodes[from], drawing.nodes[to])
            );
            assert!(route.windows(2).all(|pair| pair[0].1 + 1 == pair[1].1));
        }
    }

    #[test]
    fn an_empty_graph_has_no_size() {
        let drawing = draw(&[], &[]);
        assert!(drawing.width.abs() < 1e-9 && drawing.layers == 0);
    }
}
