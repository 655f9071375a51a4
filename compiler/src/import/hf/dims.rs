//! The dimensions of a program: their names, sizes and meanings.

use super::Step;
use super::architecture::{Architecture, Attention, Experts, Kind};
use super::machine::Machine;

/// A dimension: its name, its size, and what it counts.
pub(super) struct Dim(pub(super) &'static str, pub(super) String, pub(super) &'static str);

/// Tokens that are assigned to experts together: at most so many.
const GROUP: u64 = 512;
/// And in decode, where a group is a part of the batch.
const DECODED_GROUP: u64 = 32;

/// The dimensions of a program, in the order of their declarations.
pub(super) fn dims(model: &Architecture, machine: &Machine, step: Step) -> Vec<Dim> {
    let mut dims = tokens(model, machine, step);
    dims.push(Dim("D", model.width.to_string(), "the model's width"));
    dims.push(Dim("V", model.vocabulary.to_string(), "the vocabulary"));
    dims.extend(heads(&model.attention, step));
    if model.layers.iter().any(|layer| !layer.has_experts) {
        dims.push(Dim("F", model.hidden.to_string(), "the width of feed-forward layers"));
    }
    if let Some(experts) = &model.experts {
        dims.extend(of_experts(experts, tokens_of_group(machine, step)));
    }
    dims
}

fn tokens(model: &Architecture, machine: &Machine, step: Step) -> Vec<Dim> {
    let (batch, length) = (machine.batch, machine.sequence);
    let is_decode = step == Step::Decode;
    let mut dims = Vec::new();
    let mut number = |name, size: u64, about: &'static str| {
        if let Some(group) = model.experts.as_ref().map(|_| tokens_of_group(machine, step))
            && name == if is_decode { "B" } else { "T" }
        {
            let of = if is_decode { "parts of the batch" } else { "parts of a sequence" };
            dims.push(Dim("Groups", (size / group).to_string(), of));
            dims.push(Dim("Tokens", group.to_string(), "tokens that share the slots of experts"));
            dims.push(Dim(name, "Groups*Tokens".to_owned(), about));
        } else {
            dims.push(Dim(name, size.to_string(), about));
        }
    };
    number("B", batch, "sequences");
    if is_decode {
        number("S", length, "tokens that the cache holds of a sequence");
    } else {
        number("T", length, "tokens of a sequence");
    }
    if !is_decode {
        dims.push(Dim("S", "T".to_owned(), "the same as keys"));
    }
    if step == Step::Prefill {
        dims.push(Dim("Now", "1".to_owned(), "the last token"));
    }
    for (window, name) in windows(model).into_iter().zip(WINDOWS) {
        if is_decode && window < length {
            dims.push(Dim(name, window.to_string(), "tokens that the cache of a window holds"));
        }
    }
    dims
}

/// The largest divisor of the tokens that is at most a group.
fn tokens_of_group(machine: &Machine, step: Step) -> u64 {
    let (tokens, most) = match step {
        Step::Decode => (machine.batch, DECODED_GROUP),
        Step::Train | Step::Prefill => (machine.sequence, GROUP),
    };
    (1..=most.min(tokens.max(1))).rev().find(|size| tokens.is_multiple_of(*size)).unwrap_or(1)
}

/// Names of windows' dimensions; further ones stay masks.
const WINDOWS: [&str; 2] = ["W", "W2"];

/// The windows of a model, each once.
fn windows(model: &Architecture) -> Vec<u64> {
    let mut windows: Vec<u64> = model.windows().collect();
    windows.sort_unstable();
    windows.dedup();
    windows
}

/// The dimension of the cache of a window, where it is shorter than the sequence.
pub(super) fn window_dim(model: &Architecture, window: u64, length: u64) -> Option<&'static str> {
    let mut named = windows(model).into_iter().zip(WINDOWS);
    named.find(|(size, _)| *size == window && window < length).map(|(_, name)| name)
}

fn heads(attention: &Attention, step: Step) -> Vec<Dim> {
    let number = |name, size: u64, about| Dim(name, size.to_string(), about);
    match attention.kind {
        Kind::Grouped { key_heads, head } if key_heads == attention.heads => {
            vec![number("N", key_heads, "heads"), number("H", head, "the width of a head")]
        }
        Kind::Grouped { key_heads, head } => vec![
            number("K", key_heads, "heads of keys and values"),
            number("G", attention.heads / key_heads, "heads of queries for each of them"),
            number("H", head, "the width of a head"),
        ],
        Kind::Latent { query, latent, head, rotary, value } => {
            let mut dims = vec![
                number("N", attention.heads, "heads"),
                number("H", head, "the width of a head that is not rotated"),
                number("R", rotary, "the width that is rotated"),
                number("J", value, "the width of a head's values"),
                number("C", latent, "the latents of keys and values"),
            ];
            dims.extend(query.map(|size| number("Q", size, "the latents of queries")));
            if step != Step::Decode {
                dims.push(Dim("A", "H + R".to_owned(), "the width of a head, both parts"));
            }
            dims
        }
    }
}

fn of_experts(experts: &Experts, group: u64) -> Vec<Dim> {
    let slots = (5 * group * experts.chosen).div_ceil(4 * experts.count).clamp(1, group);
    let number = |name, size: u64, about| Dim(name, size.to_string(), about);
    let mut dims = match experts.limit {
        Some(limit) => vec![
            number("Nodes", limit.groups, "groups of experts"),
            number("Each", experts.count / limit.groups, "experts of a group"),
            Dim("E", "Nodes*Each".to_owned(), "experts"),
            number("Kept", limit.kept, "groups of a token's experts"),
        ],
        None => vec![number("E", experts.count, "experts")],
    };
    if experts.limit.is_some_and(|limit| limit.best > 1) {
        dims.push(number("Two", 2, "scores that groups are compared by"));
    }
    dims.push(number("M", experts.width, "the width of an expert"));
    dims.extend(experts.shared.map(|size| number("U", size, "the width of the shared expert")));
    dims.push(number("Slots", slots, "tokens of a group that an expert takes at most"));
    dims
}
