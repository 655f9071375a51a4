//! Copies that layers keep for others: how many there are while layers produce them.

use index_vec::IndexVec;
use shardwise_ir::dataflow::NodeIndex;
use shardwise_ir::ids::RepeatId;
use shardwise_ir::program::{Blocks, Repeat};

use super::LiveRanges;
use super::sweep::Growing;

impl LiveRanges<'_> {
    /// Counts the copies of a value as the layers of those blocks around it produce them that are
    /// `apart` from what it is kept for. Stages of a pipeline may have all but one of the copies
    /// from their first step on, those of other microbatches.
    pub(super) fn grow(&mut self, of: NodeIndex, copies: f64, apart: impl Fn(RepeatId) -> bool) {
        let program = &self.plan.program;
        let Some(alive) = &mut self.ranges[of.index()] else { return };
        let mut path = program.repeats.path(alive.began);
        path.retain(|&block| apart(block) && !program.repeats.is_of_microbatches(block));
        let outermost = path.first().and_then(|block| self.steps_of.get(block));
        let Some(&(_, last)) = outermost.filter(|(first, _)| *first < alive.life.from) else {
            return;
        };
        let one = 1.0 / copies.max(1.0);
        let is_staged = program.pipeline(alive.began).is_some();
        let mut layers = 1.0;
        let before = path.iter().filter_map(|block| {
            layers *= program.repeats[*block].count as f64;
            let share = if is_staged { 1.0 - one } else { 1.0 - one.max(1.0 / layers) };
            Some((self.steps_of.get(block)?.0, share))
        });
        alive.life.grows = Some(Growing { last, one, before: before.collect() });
    }
}

/// The outermost block around a place of which all iterations read the same copy of a value that is
/// produced in others, since these are fewer.
pub(super) fn block_of_one_copy(
    repeats: &IndexVec<RepeatId, Repeat>,
    place: Option<RepeatId>,
    began: Option<RepeatId>,
) -> Option<RepeatId> {
    let depth = |at: Option<RepeatId>, of: Option<RepeatId>| {
        repeats.outwards(at).filter(|&block| !repeats.is_inside(of, block)).count()
    };
    let deeper = depth(place, began).checked_sub(depth(began, place) + 1)?;
    repeats.outwards(place).nth(deeper)
}
