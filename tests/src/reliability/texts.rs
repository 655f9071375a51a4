//! Laws of any text: it is read or refused, shown as it is, and formatted without a change of
//! meaning.

use shardwise::lint::{Settings, fixed, lint};
use shardwise::{Findings, Options};
use shardwise_ir::print::same;

use super::inputs::{Input, Kind};
use super::{Checked, Law, Outcome};
use crate::drawn;

const TEXTS: &[Kind] = &[Kind::Program, Kind::Model, Kind::Mutant, Kind::Bytes];

pub(super) fn laws() -> Vec<Law> {
    vec![
        Law {
            name: "read or refused",
            says: "Any text is read, or refused with errors that have a code and point into it; \
                   what is printed of them has no control characters.",
            kinds: TEXTS,
            one_in: 1,
            check: is_read_or_refused,
        },
        Law {
            name: "format",
            says: "Formatting twice is formatting once, and keeps the program.",
            kinds: TEXTS,
            one_in: 1,
            check: is_formatted,
        },
        Law {
            name: "print",
            says: "A program that is printed reads as the same program.",
            kinds: TEXTS,
            one_in: 1,
            check: is_printed,
        },
        Law {
            name: "lint",
            says: "Lints point into the text, and after all safe edits there are no new errors.",
            kinds: &[Kind::Program, Kind::Model],
            one_in: 4,
            check: is_linted,
        },
        Law {
            name: "hardware",
            says: "A file of hardware is read, and written and read again is the same chips, or \
                   is refused with errors that point into it.",
            kinds: &[Kind::Hardware],
            one_in: 1,
            check: is_hardware,
        },
    ]
}

/// An error if findings have no code, point outside of the text, or show control characters.
pub(super) fn points_into(findings: &Findings, text: &str) -> Result<(), String> {
    for report in &findings.reports {
        if report.diag.code.is_empty() {
            return Err(format!("an error without a code: {}", report.diag.message));
        }
        for label in &report.diag.labels {
            if text.get(label.span.start..label.span.end).is_none() {
                return Err(format!("{label:?} is not a part of the text"));
            }
        }
    }
    let shown = drawn(findings) + &findings.to_string();
    match shown.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        Some(c) => Err(format!("shows {c:?}")),
        None => Ok(()),
    }
}

fn is_read_or_refused(input: &Input) -> Checked {
    let checked = shardwise::check("input", &input.text, &Options::default());
    points_into(&checked.findings, &input.text)?;
    if checked.program.is_none() && !checked.findings.has_errors() {
        return Err("no program, and no error".to_owned());
    }
    Ok(Outcome::Holds)
}

fn is_formatted(input: &Input) -> Checked {
    let Ok(once) = shardwise::format("input", &input.text) else {
        return Ok(Outcome::DoesNotApply);
    };
    let twice = shardwise::format("input", &once).map_err(|error| error.to_string())?;
    if twice != once {
        return Err(format!("formats to\n{once}\nand then to\n{twice}"));
    }
    let [before, after] = [&input.text, &once]
        .map(|text| shardwise::check("input", text, &Options::default()).program);
    match (before, after) {
        (Some(before), Some(after)) if !same(&before, &after) => {
            Err(format!("{before}\nis formatted to\n{after}"))
        }
        (Some(_), None) => Err(format!("is not read again:\n{once}")),
        (None, Some(_)) => Err(format!("is only read when formatted:\n{once}")),
        _ => Ok(Outcome::Holds),
    }
}

fn is_printed(input: &Input) -> Checked {
    let Some(program) = shardwise::check("input", &input.text, &Options::default()).program else {
        return Ok(Outcome::DoesNotApply);
    };
    let printed = program.to_string();
    let again = shardwise::check("input", &printed, &Options::default());
    match again.program {
        Some(again) if same(&program, &again) => Ok(Outcome::Holds),
        Some(again) => Err(format!("prints as\n{printed}\nand is read as\n{again}")),
        None => Err(format!("is not read again:\n{printed}\n{}", again.findings)),
    }
}

fn is_linted(input: &Input) -> Checked {
    let (settings, options) = (Settings::default(), Options::default());
    let linted = lint("input", &input.text, &options, &settings);
    if linted.has_errors() {
        return Ok(Outcome::DoesNotApply);
    }
    points_into(&linted.reports(), &input.text)?;
    let (after, _) = fixed(linted, &options, &settings);
    if after.has_errors() {
        return Err(format!("is refused after its edits:\n{}\n{}", after.source, after.reports()));
    }
    Ok(Outcome::Holds)
}

fn is_hardware(input: &Input) -> Checked {
    let chips = match shardwise::hardware::parse("hardware.toml", &input.text) {
        Ok(chips) => chips,
        Err(findings) => {
            points_into(&findings, &input.text)?;
            return Ok(Outcome::DoesNotApply);
        }
    };
    for chip in &chips {
        let text = shardwise::hardware::toml(chip);
        let again = shardwise::hardware::parse("hardware.toml", &text)
            .map_err(|findings| format!("is written as\n{text}\nand refused:\n{findings}"))?;
        if again != [chip.clone()] {
            return Err(format!("is written as\n{text}\nand read as\n{again:?}\nnot\n{chip:?}"));
        }
    }
    Ok(Outcome::Holds)
}
