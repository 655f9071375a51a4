//! A lint's page, and the reference of all codes: generated from the table, so that the text of
//! `explain` and the published page are the same.

use std::fmt::{self, Write as _};

use shardwise_ir::codes;

use crate::lint::definition::{Group, Lint};
use crate::lint::rules::all;

impl fmt::Display for Lint {
    /// The page that `explain` prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} {} ({}, {} by default)\n",
            self.code,
            self.name,
            self.group.name(),
            self.level.name()
        )?;
        writeln!(f, "{}\n\n{}\n", self.what, self.why)?;
        writeln!(
            f,
            "Triggered by:\n\n{}\nWrite instead:\n\n{}",
            indented(self.bad_example),
            indented(self.good_example)
        )?;
        if !self.parameters.is_empty() {
            writeln!(f, "In `shardwise.toml`, under `[options.{}]`:\n", self.code)?;
        }
        for parameter in self.parameters {
            writeln!(
                f,
                "    {} = {}    # {}",
                parameter.name, parameter.default, parameter.meaning
            )?;
        }
        write!(
            f,
            "{}Silenced by `allow {}` before the statement or at the top.",
            if self.parameters.is_empty() { "" } else { "\n" },
            self.code
        )
    }
}

fn indented(program: &str) -> String {
    program
        .trim_end()
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
        .collect()
}

/// The reference of all codes, as Markdown.
pub fn reference() -> String {
    let mut text = String::from(INTRODUCTION);
    for group in Group::ALL {
        let _ = write!(text, "\n## Lints: {}\n", group.name());
        for lint in all().iter().filter(|lint| lint.group == group) {
            text.push_str(&lint_section(lint));
        }
    }
    text.push_str("\n## Errors\n\nThey cannot be silenced.\n");
    for code in codes::all() {
        let _ = write!(text, "\n### {} {}\n\n{}\n", code.code, code.name, code.page);
    }
    text
}

const INTRODUCTION: &str = "# All codes

Look up here what a code of `shardwise check` means, and what to write instead. \
`shardwise docs codes` prints this page; a test keeps it up to date, and runs the programs below. \
Codes are never reused. \
[lints.md](lints.md) shows how to set levels and silence findings.
";

fn lint_section(lint: &Lint) -> String {
    let mut text = format!(
        "\n### {} {}\n\nLevel: {}. {}\n\n{}\n",
        lint.code,
        lint.name,
        lint.level.name(),
        lint.what,
        lint.why
    );
    let _ = write!(
        text,
        "\nTriggered by:\n\n```text\n{}```\n\nWrite instead:\n\n```text\n{}```\n",
        lint.bad_example, lint.good_example
    );
    if !lint.parameters.is_empty() {
        text.push_str("\n| number | default | decides |\n| --- | --- | --- |\n");
    }
    for parameter in lint.parameters {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            parameter.name, parameter.default, parameter.meaning
        );
    }
    text
}
