//! The difference of two texts as one replaced span: what an editor is asked to replace, and where
//! the findings of the older text are in the newer one.
//!
//! One span is enough: an edit changes one place, and a finding that is carried across it is
//! replaced as soon as the newer text is linted. A diff of lines would also find a moved line, at
//! the price of a slower answer to each key.

use shardwise_ir::Span;

use crate::lint::Finding;

/// The part in which two texts differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The replaced span of the older text.
    pub old: Span,
    /// What it became in the newer one.
    pub new: Span,
}

impl Change {
    /// The smallest change from `old` to `new`; `None` if they are equal.
    ///
    /// ```
    /// use shardwise::editor::Change;
    /// let change = Change::between("dim  B=8", "dim B=8").unwrap();
    /// assert_eq!((change.old.end - change.old.start, change.new.end - change.new.start), (1, 0));
    /// assert_eq!(Change::between("a", "a"), None);
    /// ```
    pub fn between(old: &str, new: &str) -> Option<Self> {
        if old == new {
            return None;
        }
        let same = |(a, b): &(char, char)| a == b;
        let start: usize =
            old.chars().zip(new.chars()).take_while(same).map(|(c, _)| c.len_utf8()).sum();
        let rest = old[start..].chars().rev().zip(new[start..].chars().rev());
        let end: usize = rest.take_while(same).map(|(c, _)| c.len_utf8()).sum();
        Some(Self {
            old: Span::new(start, old.len() - end),
            new: Span::new(start, new.len() - end),
        })
    }

    /// Where a span of the older text is in the newer one; `None` if the change touches it.
    pub fn carried(&self, span: Span) -> Option<Span> {
        if span.end < self.old.start {
            return Some(span);
        }
        let moved = |at: usize| at - self.old.end + self.new.end;
        (span.start > self.old.end).then(|| Span::new(moved(span.start), moved(span.end)))
    }

    /// A finding about the older text in the newer one, without its fix, which may no longer be
    /// right; `None` if the change touches one of its places.
    pub fn carried_finding(&self, finding: &Finding) -> Option<Finding> {
        let mut finding = finding.clone();
        for label in &mut finding.diag.labels {
            label.span = self.carried(label.span)?;
        }
        finding.fix = None;
        Some(finding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_rebuilds_the_newer_text() {
        for (old, new) in [("", "a"), ("aa", "a"), ("αβ", "αγ"), ("a\nb", "a\nc\nb"), ("x", "")]
        {
            let Change { old: from, new: to } = Change::between(old, new).expect("a difference");
            let rebuilt =
                format!("{}{}{}", &old[..from.start], &new[to.start..to.end], { &old[from.end..] });
            assert_eq!(rebuilt, new);
        }
    }

    #[test]
    fn spans_beside_a_change_are_carried() {
        let (old, new) = ("one two three", "one twenty three");
        let change = Change::between(old, new).expect("a difference");
        assert_eq!(change.carried(Span::new(0, 3)), Some(Span::new(0, 3)));
        let three = change.carried(Span::new(8, 13)).expect("beside the change");
        assert_eq!(&new[three.start..three.end], "three");
        assert_eq!(change.carried(Span::new(4, 7)), None);
    }
}
