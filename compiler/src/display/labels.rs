//! Numbers beside circles of a picture. Those that would overlap are one label, `1–3, 5`, beside
//! the first of their circles.

/// Pixels of a letter, of its line, and between labels.
const LETTER: f64 = 7.0;
const LINE: f64 = 14.0;
const APART: f64 = 3.0;

/// A circle: its centre and radius in pixels.
#[derive(Clone, Copy)]
pub(crate) struct Circle {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) radius: f64,
}

/// A label, whose middle is as high as that of its circle.
#[derive(Debug, PartialEq)]
pub(crate) struct Label {
    /// Which circle it is beside, from 0.
    pub(crate) circle: usize,
    pub(crate) text: String,
    /// Where the text begins.
    pub(crate) x: f64,
}

/// The labels of circles, which are numbered from 1; none passes `right`.
pub(crate) fn labels(circles: &[Circle], right: f64) -> Vec<Label> {
    let mut groups: Vec<Vec<usize>> = (0..circles.len()).map(|circle| vec![circle]).collect();
    while let Some((first, second)) = overlapping(&groups, circles, right) {
        let joined = groups.remove(second);
        groups[first].extend(joined);
        groups[first].sort_unstable();
    }
    groups.iter().map(|group| label(group, circles, right)).collect()
}

/// Two groups, the earlier first, whose labels would overlap.
fn overlapping(groups: &[Vec<usize>], circles: &[Circle], right: f64) -> Option<(usize, usize)> {
    let labels: Vec<Label> = groups.iter().map(|group| label(group, circles, right)).collect();
    let overlap = |a: &Label, b: &Label| {
        let is_beside = a.x + width(&a.text) + APART <= b.x || b.x + width(&b.text) + APART <= a.x;
        !is_beside && (circles[a.circle].y - circles[b.circle].y).abs() < LINE
    };
    (0..labels.len()).find_map(|first| {
        let second = (first + 1..labels.len()).find(|&at| overlap(&labels[first], &labels[at]))?;
        Some((first, second))
    })
}

/// The label of a group: right of its first circle, or left of it where it would pass the edge.
fn label(group: &[usize], circles: &[Circle], right: f64) -> Label {
    let circle = group[0];
    let Circle { x, radius, .. } = circles[circle];
    let text = numbers(group);
    let (after, before) = (x + radius + APART, x - radius - APART - width(&text));
    Label { circle, x: if after + width(&text) <= right { after } else { before }, text }
}

fn width(text: &str) -> f64 {
    LETTER * text.chars().count() as f64
}

/// `1–3, 5, 6`: numbers of circles, of which three or more successive ones are a range.
fn numbers(group: &[usize]) -> String {
    let runs = group.chunk_by(|before, after| before + 1 == *after);
    let words = runs.flat_map(|run| match run {
        [first, _, .., last] => vec![format!("{}–{}", first + 1, last + 1)],
        _ => run.iter().map(|circle| (circle + 1).to_string()).collect(),
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{Circle, labels};

    fn texts(places: &[(f64, f64)]) -> Vec<(usize, String)> {
        let circles: Vec<Circle> =
            places.iter().map(|&(x, y)| Circle { x, y, radius: 4.0 }).collect();
        let labels = labels(&circles, 300.0);
        for label in &labels {
            let ends = label.x + 7.0 * label.text.chars().count() as f64;
            assert!(label.x > 0.0 && ends <= 300.0, "{label:?}");
        }
        labels.into_iter().map(|label| (label.circle, label.text)).collect()
    }

    #[test]
    fn labels_that_would_overlap_are_one() {
        let named = |labels: &[(usize, &str)]| -> Vec<(usize, String)> {
            labels.iter().map(|&(circle, text)| (circle, text.to_owned())).collect()
        };
        assert_eq!(texts(&[(50.0, 50.0); 6]), named(&[(0, "1–6")]));
        assert_eq!(texts(&[(50.0, 50.0), (50.0, 52.0)]), named(&[(0, "1, 2")]));
        assert_eq!(texts(&[(50.0, 50.0), (50.0, 70.0)]), named(&[(0, "1"), (1, "2")]));
        assert_eq!(
            texts(&[(50.0, 50.0), (50.0, 90.0), (51.0, 50.0)]),
            named(&[(0, "1, 3"), (1, "2")])
        );
        // A joint label is longer, and reaches the next one.
        assert_eq!(texts(&[(50.0, 50.0), (75.0, 50.0), (50.0, 50.0)]), named(&[(0, "1–3")]));
        // At the right edge, labels are left of their circles.
        assert_eq!(texts(&[(290.0, 50.0); 3]), named(&[(0, "1–3")]));
    }
}
