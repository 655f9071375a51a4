//! The layers of a model as blocks: what repeats is written once, patterns in patterns included
//! (five local layers and a global one, ten times).

use super::architecture::Layer;

/// A part of the layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    Layer(Layer),
    Repeat(u64, Vec<Block>),
}

/// The layers of a model as blocks that run at least once each: only a block can redefine a value.
pub(super) fn blocks(layers: &[Layer]) -> Vec<Block> {
    let all = folded(layers).into_iter().map(|block| match block {
        Block::Layer(_) => Block::Repeat(1, vec![block]),
        Block::Repeat(..) => block,
    });
    all.collect()
}

/// Folds repeated patterns, the one that covers most layers first; of equal ones the shortest.
fn folded(layers: &[Layer]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut rest = layers;
    while let Some(first) = rest.first() {
        let (period, count) = longest_pattern(rest);
        if count < 2 {
            blocks.push(Block::Layer(*first));
            rest = &rest[1..];
        } else {
            blocks.push(Block::Repeat(count as u64, folded(&rest[..period])));
            rest = &rest[period * count..];
        }
    }
    blocks
}

/// The length of the pattern that the layers begin with, and how often it follows itself.
fn longest_pattern(layers: &[Layer]) -> (usize, usize) {
    let mut best = (1, 1);
    for period in 1..=layers.len() / 2 {
        let pattern = &layers[..period];
        let count = layers.chunks(period).take_while(|chunk| *chunk == pattern).count();
        if count > 1 && period * count > best.0 * best.1 {
            best = (period, count);
        }
    }
    best
}

/// The layers that are written: one for each place, in order.
pub(super) fn written(blocks: &[Block]) -> Vec<Layer> {
    let mut layers = Vec::new();
    for block in blocks {
        match block {
            Block::Layer(layer) => layers.push(*layer),
            Block::Repeat(_, inner) => layers.extend(written(inner)),
        }
    }
    layers
}

/// What is appended to names of each written layer, so that they differ: nothing if there is one,
/// else what it is (`.local`, `.dense`), with a number from the second of a kind.
pub(super) fn suffixes(written: &[Layer]) -> Vec<String> {
    let is_mixed = |property: fn(&Layer) -> bool| {
        written.iter().any(property) && !written.iter().all(property)
    };
    let has_windows = is_mixed(|layer| layer.window.is_some());
    let has_dense = is_mixed(|layer| layer.has_experts);
    let label = |layer: &Layer| {
        let window = if layer.window.is_some() { ".local" } else { ".global" };
        let hidden = if layer.has_experts { ".moe" } else { ".dense" };
        let both = [(has_windows, window), (has_dense, hidden)];
        both.iter().filter(|(is_mixed, _)| *is_mixed).map(|(_, label)| *label).collect()
    };
    let labels: Vec<String> = written.iter().map(label).collect();
    let numbered = labels.iter().enumerate().map(|(place, label)| {
        let earlier = labels[..place].iter().filter(|other| *other == label).count();
        if earlier == 0 { label.clone() } else { format!("{label}.{}", earlier + 1) }
    });
    numbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(pattern: &str) -> Vec<Layer> {
        let layer = |kind| Layer { window: (kind == 'l').then_some(8), has_experts: kind == 'm' };
        pattern.chars().map(layer).collect()
    }

    fn text(blocks: &[Block]) -> String {
        let one = |block: &Block| match block {
            Block::Layer(Layer { window: Some(_), .. }) => "l".to_owned(),
            Block::Layer(layer) => if layer.has_experts { "m" } else { "g" }.to_owned(),
            Block::Repeat(count, inner) => format!("{count}({})", text(inner)),
        };
        blocks.iter().map(one).collect()
    }

    #[test]
    fn patterns_are_folded() {
        for (pattern, expected) in [
            ("g", "1(g)"),
            ("gggg", "4(g)"),
            ("lglglg", "3(lg)"),
            ("gmmmm", "1(g)4(m)"),
            ("gggmmmm", "3(g)4(m)"),
            ("lllllglllllgll", "2(5(l)g)2(l)"),
            ("lllg", "3(l)1(g)"),
        ] {
            assert_eq!(text(&blocks(&layers(pattern))), expected, "{pattern}");
        }
    }

    #[test]
    fn names_differ_by_what_layers_are() {
        let of = |pattern: &str| suffixes(&written(&blocks(&layers(pattern))));
        assert_eq!(of("gggg"), [""]);
        assert_eq!(of("gmmmm"), [".dense", ".moe"]);
        assert_eq!(of("lllllglllllgll"), [".local", ".global", ".local.2"]);
    }
}
