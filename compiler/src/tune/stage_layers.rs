//! Numbers of layers by stage that keep fewer activations for gradients than equal ones.
//!
//! With `1f1b` the first stage keeps those of the most microbatches, and each that follows of one
//! fewer. A step takes as long as the longest stage lets it, whichever the others are, so for each
//! length of the longest stage one list is best: the one in which the most that a stage keeps,
//! layers times microbatches, is least. Those of them that keep less than all with a shorter
//! longest stage are candidates. There are exponentially many other lists; a test plans all of a
//! small program, and none is better.

/// The microbatches that each stage keeps.
fn kept(stages: u64, microbatches: u64) -> impl Iterator<Item = u64> + Clone {
    (0..stages).map(move |stage| microbatches.min(stages - stage))
}

/// The most layers of a stage, times the microbatches that it keeps.
fn most_kept(layers: &[u64], microbatches: u64) -> u64 {
    let kept = kept(layers.len() as u64, microbatches);
    layers.iter().zip(kept).map(|(layers, kept)| layers * kept).max().unwrap_or(0)
}

/// The layers of each stage, at most `longest`, so that the most that a stage keeps is least.
pub(super) fn fewer_first(
    layers: u64,
    stages: u64,
    microbatches: u64,
    longest: u64,
) -> Option<Vec<u64>> {
    let within = |most: u64| -> Vec<u64> {
        kept(stages, microbatches).map(|kept| longest.min(most / kept)).collect()
    };
    let holds_all = |most: &u64| {
        let most_layers = within(*most);
        most_layers.iter().all(|&layers| layers > 0) && most_layers.iter().sum::<u64>() >= layers
    };
    let mut list = within((1..=longest * stages).find(holds_all)?);
    let mut excess = list.iter().sum::<u64>() - layers;
    for of_stage in &mut list {
        let fewer = excess.min(*of_stage - 1);
        (*of_stage, excess) = (*of_stage - fewer, excess - fewer);
    }
    (excess == 0).then_some(list)
}

/// The lengths of the longest stage with which stages keep less than with any shorter one, and
/// than where layers are spread evenly.
pub(super) fn lengths(even: &[u64], microbatches: u64) -> Vec<u64> {
    let (layers, stages) = (even.iter().sum::<u64>(), even.len() as u64);
    let mut least = most_kept(even, microbatches);
    let mut found = Vec::new();
    for longest in layers.div_ceil(stages)..layers {
        let list = fewer_first(layers, stages, microbatches, longest);
        let kept = list.map_or(u64::MAX, |list| most_kept(&list, microbatches));
        if kept < least {
            least = kept;
            found.push(longest);
        }
    }
    found
}
