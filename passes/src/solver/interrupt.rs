//! What ends a search before its proof: a deadline, or the caller. Every loop of a search asks
//! here, and nowhere else.

use std::fmt;
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

/// How far a search is: what its clients show while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The value of the best solution so far; infinite before the first.
    pub best_s: f64,
    /// The lower bound so far.
    pub lower_bound_s: f64,
}

/// Hears how far a search is, from any thread; the default one does not.
#[derive(Clone, Default)]
pub struct Listener(Option<Arc<dyn Fn(Progress) + Send + Sync>>);

impl Listener {
    /// One that is called at every step of a search.
    pub fn new(listen: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listen)))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Listener(..)" } else { "Listener" })
    }
}

/// When a search ends before its proof, and who hears of it until then; the default is at the
/// solver's own counts of work, and nobody.
#[derive(Clone, Debug)]
pub struct Interrupt {
    /// When it ends at the latest.
    pub deadline: Option<Instant>,
    /// Ends it when it is set, with the best result so far.
    pub enough: Cancellation,
    /// Ends it when it is set: nobody wants a result.
    pub cancellation: Cancellation,
    /// Hears how far the search is.
    pub listener: Listener,
    /// What the solver's counts of work are multiplied with.
    pub work: f64,
    /// Whether a wide gap is worth several times that work.
    pub is_patient: bool,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::NEVER
    }
}

impl Interrupt {
    /// No deadline, no cancellation.
    pub const NEVER: Self = Self {
        deadline: None,
        enough: Cancellation(None),
        cancellation: Cancellation(None),
        listener: Listener(None),
        work: 1.0,
        is_patient: false,
    };

    /// A deadline only.
    pub fn at(deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..Self::NEVER }
    }

    /// The same with a share of the time that is left: what comes after needs the rest.
    #[must_use]
    pub(crate) fn part(&self, share: f64) -> Self {
        let now = Instant::now();
        let deadline = self
            .deadline
            .map(|deadline| now + deadline.saturating_duration_since(now).mul_f64(share));
        Self { deadline, ..self.clone() }
    }

    /// The same with a share of the counts of work.
    #[must_use]
    pub(crate) fn with_work(&self, share: f64) -> Self {
        Self { work: self.work * share, ..self.clone() }
    }

    /// The same where a wide gap is worth more work.
    #[must_use]
    pub(crate) fn patient(&self) -> Self {
        Self { is_patient: true, ..self.clone() }
    }

    /// A count of work of which this search may do its share.
    pub(crate) fn allowed(&self, count: usize) -> usize {
        (count as f64 * self.work) as usize
    }

    /// The same, heard by nobody: its values are not those of the search that is listened to.
    #[must_use]
    pub(crate) fn unheard(&self) -> Self {
        Self { listener: Listener::default(), ..self.clone() }
    }

    /// Tells how far the search is.
    pub(crate) fn report(&self, best_s: f64, lower_bound_s: f64) {
        if let Some(listen) = &self.listener.0 {
            listen(Progress { best_s, lower_bound_s });
        }
    }

    /// Whether nobody wants the result any more: then a search returns what is cheapest to return.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// What is made, unless the search should end before.
    pub(crate) fn before_due<T>(&self, make: impl FnOnce() -> T) -> Option<T> {
        (!self.is_due()).then(make)
    }

    /// Whether the search should end now, with the best result so far.
    pub fn is_due(&self) -> bool {
        self.is_cancelled()
            || self.enough.is_cancelled()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}
