//! What ends a search before its proof: a deadline, or the caller. Every loop of a search asks
//! here, and nowhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A flag that ends searches; its clones are the same flag.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Option<Arc<AtomicBool>>);

impl Cancellation {
    /// A flag that can be set; the default one cannot.
    ///
    /// ```
    /// use shardwise_passes::solver::Cancellation;
    /// let cancellation = Cancellation::new();
    /// let clone = cancellation.clone();
    /// assert!(!clone.is_cancelled());
    /// cancellation.cancel();
    /// assert!(clone.is_cancelled());
    /// ```
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Ends the searches that have this flag, from any thread.
    pub fn cancel(&self) {
        if let Some(flag) = &self.0 {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the searches should end.
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// When a search ends before its proof or its limits of work; the default is never.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    /// When it ends at the latest.
    pub deadline: Option<Instant>,
    /// Ends it when it is set.
    pub cancellation: Cancellation,
}

impl Interrupt {
    /// No deadline, no cancellation.
    pub const NEVER: Self = Self { deadline: None, cancellation: Cancellation(None) };

    /// A deadline only.
    pub fn at(deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..Self::NEVER }
    }

    /// Whether nobody wants the result any more: then a search returns what is cheapest to return.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Whether the search should end now, with the best result so far.
    pub(crate) fn is_due(&self) -> bool {
        self.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}
