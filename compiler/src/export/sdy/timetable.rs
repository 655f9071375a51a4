//! Which stage of a pipeline runs which chunk of layers for which microbatch when.
//!
//! In each tick a stage runs one chunk for one microbatch, and sends the result on. A microbatch is
//! in the k-th chunk of its path k ticks after the first, and enters as soon as no stage would have
//! two at once.

use std::collections::BTreeSet;

use super::super::json::StagesJson;
use super::super::walk::stages::chunks;

/// The layers that each stage has, by slot; none where it has fewer than others.
pub(super) fn slots(stages: &StagesJson) -> Vec<Vec<Option<usize>>> {
    let chunks = chunks(stages);
    let longest = longest(stages);
    let count = 1 + chunks.iter().map(|(stage, _)| *stage).max().unwrap_or(0);
    let mut found = vec![Vec::new(); count as usize];
    let mut first = 0;
    for (stage, layers) in chunks {
        let of_chunk = (0..longest).map(|layer| (layer < layers).then_some(first + layer));
        found[stage as usize].extend(of_chunk);
        first += layers;
    }
    let most = found.iter().map(Vec::len).max().unwrap_or(0);
    for of_stage in &mut found {
        of_stage.resize(most, None);
    }
    found
}

/// The layers of the longest chunk.
pub(super) fn longest(stages: &StagesJson) -> usize {
    chunks(stages).iter().map(|(_, layers)| *layers).max().unwrap_or(1)
}

/// What a stage does in a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// Whether it does anything.
    pub(super) is_busy: bool,
    /// Which of its own chunks it runs.
    pub(super) chunk: usize,
    pub(super) microbatch: usize,
    /// From where the microbatch arrives: 0 from outside, else the number of the hop, from 1 on.
    pub(super) source: usize,
}

/// When which stage runs what.
pub(super) struct Timetable {
    /// For each tick, the turn of each stage.
    pub(super) turns: Vec<Vec<Turn>>,
    /// For each stage and each of its chunks, the tick of each microbatch.
    pub(super) when: Vec<Vec<Vec<usize>>>,
    /// How many stages further results are sent, each once.
    pub(super) hops: Vec<usize>,
    /// The tick after which each microbatch has passed all chunks.
    pub(super) last: Vec<usize>,
    /// The stage of the last chunk.
    pub(super) last_stage: usize,
}

impl Timetable {
    pub(super) fn of(stages: &StagesJson, reverse: bool) -> Self {
        let chunks = chunks(stages);
        let stage_of: Vec<usize> = chunks.iter().map(|(stage, _)| *stage as usize).collect();
        let own =
            |chunk: usize| stage_of[..chunk].iter().filter(|it| **it == stage_of[chunk]).count();
        let mut order: Vec<usize> = (0..chunks.len()).collect();
        if reverse {
            order.reverse();
        }
        let path: Vec<usize> = order.iter().map(|&chunk| stage_of[chunk]).collect();
        let entries = entries(&path, stages.microbatches as usize);
        let all = slots(stages);
        let (count, of_stage) = (all.len(), all[0].len() / longest(stages));
        let hop = |k: usize| (path[k] + count - path[k - 1]) % count;
        let hops: BTreeSet<usize> = (1..path.len()).map(hop).collect();
        let hops: Vec<usize> = hops.into_iter().collect();
        let ticks = entries.last().map_or(0, |last| last + path.len());
        let mut turns = vec![vec![Turn::default(); count]; ticks];
        let mut when = vec![vec![vec![0; entries.len()]; of_stage]; count];
        for (k, (&chunk, &stage)) in order.iter().zip(&path).enumerate() {
            let arrives = |k: usize| hops.iter().position(|&known| known == hop(k)).unwrap_or(0);
            let source = if k == 0 { 0 } else { 1 + arrives(k) };
            for (microbatch, entry) in entries.iter().enumerate() {
                let chunk = own(chunk);
                turns[entry + k][stage] = Turn { is_busy: true, chunk, microbatch, source };
                when[stage][chunk][microbatch] = entry + k;
            }
        }
        let last = entries.iter().map(|entry| entry + path.len() - 1).collect();
        let last_stage = path.last().copied().unwrap_or(0);
        Self { turns, when, hops, last, last_stage }
    }
}

/// When each of `count` microbatches enters a path of stages.
fn entries(path: &[usize], count: usize) -> Vec<usize> {
    let mut entries = Vec::new();
    let mut busy: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut tick = 0;
    while entries.len() < count {
        let wanted: Vec<(usize, usize)> =
            path.iter().enumerate().map(|(k, &stage)| (tick + k, stage)).collect();
        if wanted.iter().all(|turn| !busy.contains(turn)) {
            entries.push(tick);
            busy.extend(wanted);
        }
        tick += 1;
    }
    entries
}
