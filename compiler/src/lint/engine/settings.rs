//! The settings of lints: their levels and numbers.
//!
//! Of several settings for a lint the most specific applies: its code or name before its group or
//! the beginning of its code, these before `all`. Of equally specific ones `ignore` comes before
//! `deny`, and that before `warn`. So a group can be disabled and one lint of it enabled again, in
//! any order of the lines.

use std::str::FromStr;

use shardwise_ir::Severity;
use shardwise_ir::suggest::nearest;

use crate::lint::definition::{Group, Level, Lint, Numbers};
use crate::lint::rules::{all, find};

/// A word that selects lints: a code, the beginning of one, a name, a group, `all` or `default`. A
/// group, or the beginning of a code, selects those of its lints that are enabled by default:
/// others are selected by their code or by `all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    All,
    Default,
    Group(Group),
    Prefix(String),
    One(&'static str),
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let group = Group::ALL.into_iter().find(|group| group.name() == word);
        let prefix = word.to_ascii_uppercase();
        let kind = match (word, find(word), group) {
            ("all", ..) => Kind::All,
            ("default", ..) => Kind::Default,
            (_, Some(lint), _) => Kind::One(lint.code),
            (_, _, Some(group)) => Kind::Group(group),
            _ if prefix.len() >= 2 && all().iter().any(|lint| lint.code.starts_with(&prefix)) => {
                Kind::Prefix(prefix)
            }
            _ => return Err(unknown(word)),
        };
        Ok(Self { kind })
    }
}

fn unknown(word: &str) -> String {
    let groups = Group::ALL.map(Group::name);
    let names = all().iter().flat_map(|lint| [lint.code, lint.name]);
    match nearest(word, groups.into_iter().chain(names)) {
        Some(near) => format!("`{word}` is no lint; did you mean `{near}`?"),
        None => format!(
            "`{word}` is no lint; write a code (SW301), its beginning (SW3), a name, a group ({}) \
                or all",
            groups.join(", ")
        ),
    }
}

impl Selector {
    fn covers(&self, lint: &Lint) -> bool {
        match &self.kind {
            Kind::All => true,
            Kind::Default => lint.level != Level::Allow,
            Kind::Group(group) => lint.group == *group && lint.level != Level::Allow,
            Kind::Prefix(prefix) => {
                lint.code.starts_with(prefix.as_str()) && lint.level != Level::Allow
            }
            Kind::One(code) => lint.code == *code,
        }
    }

    fn specificity(&self) -> u8 {
        match self.kind {
            Kind::All | Kind::Default => 0,
            Kind::Group(_) | Kind::Prefix(_) => 1,
            Kind::One(_) => 2,
        }
    }
}

/// The levels set in one place: a configuration, an override for some paths, a command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Levels {
    /// If given, only these run, and those that `warn` and `deny` name.
    pub select: Option<Vec<Selector>>,
    /// These do not run.
    pub ignore: Vec<Selector>,
    /// Findings of these are warnings.
    pub warn: Vec<Selector>,
    /// Findings of these are errors.
    pub deny: Vec<Selector>,
}

impl Levels {
    /// The level that this sets for `lint`, if any; `before` is the level so far.
    fn level(&self, lint: &Lint, before: Level) -> Level {
        let lists =
            [(&self.warn, Level::Warn), (&self.deny, Level::Deny), (&self.ignore, Level::Allow)];
        let applicable = lists
            .into_iter()
            .flat_map(|(list, level)| list.iter().map(move |selector| (selector, level)));
        // Of equals the last applies: ignore over deny over warn.
        let strongest = applicable
            .filter(|(selector, _)| selector.covers(lint))
            .max_by_key(|(selector, _)| selector.specificity());
        let selected =
            self.select.as_ref().map(|list| list.iter().any(|selector| selector.covers(lint)));
        match (strongest, selected) {
            (Some((_, level)), _) => level,
            (None, Some(false)) => Level::Allow,
            (None, Some(true)) => {
                if lint.level == Level::Allow {
                    Level::Warn
                } else {
                    before.max(lint.level)
                }
            }
            (None, None) => before,
        }
    }
}

/// Levels and numbers of all lints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    layers: Vec<Levels>,
    numbers: Numbers,
    deny_warnings: bool,
}

impl Settings {
    /// Applies `levels` over the earlier settings.
    pub fn layer(&mut self, levels: Levels) {
        self.layers.push(levels);
    }

    /// Makes every finding an error.
    pub fn deny_warnings(&mut self) {
        self.deny_warnings = true;
    }

    /// Sets a number of a lint.
    pub(super) fn put(&mut self, lint: &'static Lint, name: &'static str, value: f64) {
        self.numbers.insert((lint.code, name), value);
    }

    /// The level of `lint`.
    pub fn level(&self, lint: &Lint) -> Level {
        let level =
            self.layers.iter().fold(lint.level, |before, levels| levels.level(lint, before));
        if self.deny_warnings && level == Level::Warn { Level::Deny } else { level }
    }

    /// The severity of findings with this code; findings that no lint reports are errors.
    pub(super) fn severity(&self, code: &str) -> Severity {
        let level = find(code).map(|lint| self.level(lint));
        if level.is_some_and(|level| level < Level::Deny) {
            Severity::Warning
        } else {
            Severity::Error
        }
    }

    /// The numbers that are set, by code and name.
    pub(in crate::lint) fn numbers(&self) -> &Numbers {
        &self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<Selector> {
        words.iter().map(|word| word.parse().expect("a selector")).collect()
    }

    fn level(levels: Levels, code: &str) -> Level {
        let mut settings = Settings::default();
        settings.layer(levels);
        settings.level(find(code).expect("a lint"))
    }

    #[test]
    fn the_most_specific_word_holds() {
        let levels =
            Levels { ignore: words(&["tidiness"]), deny: words(&["SW351"]), ..Levels::default() };
        assert_eq!(level(levels.clone(), "SW351"), Level::Deny);
        assert_eq!(level(levels, "SW352"), Level::Allow);
        assert_eq!(
            level(
                Levels { warn: words(&["all"]), ignore: words(&["sw35"]), ..Levels::default() },
                "SW352"
            ),
            Level::Allow
        );
    }

    #[test]
    fn what_is_not_selected_does_not_run() {
        let levels = Levels {
            select: Some(words(&["communication"])),
            deny: words(&["SW352"]),
            ..Levels::default()
        };
        assert_eq!(level(levels.clone(), "SW351"), Level::Allow);
        assert_eq!(level(levels.clone(), "SW352"), Level::Deny);
        assert_eq!(level(levels, "SW301"), Level::Warn);
    }

    #[test]
    fn what_is_off_is_not_turned_on_by_its_group() {
        assert_eq!(
            level(Levels { deny: words(&["communication", "SW3"]), ..Levels::default() }, "SW313"),
            Level::Allow
        );
        assert_eq!(
            level(Levels { deny: words(&["communication-bound"]), ..Levels::default() }, "SW313"),
            Level::Deny
        );
        assert_eq!(
            level(Levels { select: Some(words(&["all"])), ..Levels::default() }, "SW313"),
            Level::Warn
        );
    }

    #[test]
    fn a_wrong_word_is_answered_with_the_nearest() {
        assert_eq!(
            "unused-axiss".parse::<Selector>().expect_err("no lint"),
            "`unused-axiss` is no lint; did you mean `unused-axis`?"
        );
        assert!("Q1".parse::<Selector>().expect_err("no lint").contains("a group (communication"));
    }
}
