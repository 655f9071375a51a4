//! A limit on time that several searches share, one after the other.

use std::time::{Duration, Instant};

/// The time of the searches that are still to come.
pub(super) struct SharedTime {
    end: Option<Instant>,
    searches: usize,
}

impl SharedTime {
    /// A limit, which begins now, on so many searches together.
    pub(super) fn new(limit: Option<Duration>, searches: usize) -> Self {
        Self { end: limit.map(|limit| Instant::now() + limit), searches }
    }

    /// The limit of the next search: an equal part of the time that is left. What a search does not
    /// use, the later ones have.
    pub(super) fn next(&mut self) -> Option<Duration> {
        let left = self.end?.saturating_duration_since(Instant::now());
        let part = left.div_f64(self.searches.max(1) as f64);
        self.searches = self.searches.saturating_sub(1);
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, SharedTime};

    #[test]
    fn searches_have_equal_parts_of_what_is_left() {
        let mut time = SharedTime::new(Some(Duration::from_secs(60)), 2);
        let [first, second] =
            [time.next(), time.next()].map(|part| part.map_or(0, |it| it.as_secs()));
        assert!((29..=30).contains(&first) && (59..=60).contains(&second), "{first} {second}");
        assert_eq!(SharedTime::new(None, 2).next(), None);
    }
}
