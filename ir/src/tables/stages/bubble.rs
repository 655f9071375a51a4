//! The bubble of each schedule as a formula, for the sum of steps: how long a stage waits while the
//! pipeline fills and drains, where all stages are alike.
//!
//! It counts chunks whose three passes (forward `F`, gradients of activations `B` and of weights
//! `W`) take equally long, in thirds, since steps do not know which pass they belong to. With `Z`
//! stages and `M` microbatches it is
//! * `gpipe`, `1f1b`: `(Z-1)(F+B+W)`;
//! * `zb-h1`: `(Z-1)(F+B)-(min(Z,M)-1)W`. A stage fills its bubble with gradients of weights, of
//!   which it has those of the microbatches before the last one;
//! * `zb-v`: `(Z-1)F` from `M = (3Z-1)/2` on. One microbatch alone takes `2Z(F+B)+2W`, in which a
//!   stage works for two chunks and waits for `2(Z-1)(F+B)`; each further one fills two passes of
//!   that;
//! * `dualpipe`, `dualpipe-v`: `(Z/2-1)(F+2B-W)` and `(Z-1)(F+2B-W)`; both have `M >= 2Z`.
//!
//! Without gradients there is nothing to delay. `zb-h1` is `1f1b`. Where microbatches enter at both
//! ends, or turn around at the last stage, a stage takes both kinds in turns: with `dualpipe`
//! `Z/2-1` stages are before and after any in the middle, and with a V `Z-1` chunks are before and
//! after both of the last stage. No order has a shorter bubble.
//!
//! The simulation has every pass with its own time, so that its bubble may be longer; what is then
//! longer than the sum of steps is added to it. Alternatives: the passes apart, which every layout
//! of an operation and every reshard would have to know, and which is still no upper bound where
//! gradients of weights take the longest; and the bubble of `1f1b`, which is one for all schedules,
//! and no reason to choose another.

use super::Schedule;

impl Schedule {
    /// The bubble, in thirds of the time of a chunk; without gradients, of a chunk forward.
    pub fn bubble_thirds(self, stages: u64, microbatches: u64, trains: bool) -> u64 {
        let (others, later) = (stages.saturating_sub(1), microbatches.saturating_sub(1));
        let inner = stages.saturating_sub(2);
        match (self, trains) {
            (Self::GPipe | Self::OneForwardOneBackward, _) | (Self::ZeroBubble, false) => {
                3 * others
            }
            (Self::ZeroBubble, true) => 2 * others - later.min(others),
            (Self::ZeroBubbleV, true) => (4 * others).saturating_sub(2 * later).max(others),
            (Self::DualPipe, true) => inner,
            (Self::DualPipe, false) => 3 * inner,
            (Self::DualPipeV, true) => 2 * others,
            (Self::ZeroBubbleV | Self::DualPipeV, false) => 6 * others,
        }
    }

    /// The number of stages that run a layer beside the ones of a device, where all are alike.
    fn elsewhere(self, stages: u64) -> u64 {
        stages.saturating_sub(if self.is_bidirectional() { 2 } else { 1 })
    }

    /// The bubble in turns of a layer, rounded up, where so many turns for one microbatch are on
    /// other devices, spread over chunks.
    pub(super) fn idle(
        self,
        stages: u64,
        (elsewhere, chunks): (u64, u64),
        (microbatches, trains): (u64, bool),
    ) -> u64 {
        let thirds = self.bubble_thirds(stages, microbatches, trains);
        let idle = u128::from(elsewhere.div_ceil(chunks.max(1))) * u128::from(thirds);
        let of = 3 * u128::from(self.elsewhere(stages).max(1));
        u64::try_from(idle.div_ceil(of)).unwrap_or(u64::MAX)
    }
}
