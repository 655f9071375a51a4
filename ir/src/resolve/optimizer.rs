//! `optimizer adam over X`.

use crate::codes::optimizer as codes;
use shardwise_grammar::ast;
use shardwise_grammar::print;
use shardwise_grammar::span::{Name, Span};

use super::Resolver;
use crate::dtype::DType;
use crate::optimizer::{Optimizer, Rule, StateOver};
use crate::program::Mode;
use crate::{Diag, suggest};

/// Names of optimizers, each with its settings beside `moments` and `master`, and their defaults.
pub(super) const KNOWN: [(&str, &[(&str, &str)]); 4] = [
    (
        "adam",
        &[
            ("rate", "0.001"),
            ("beta1", "0.9"),
            ("beta2", "0.999"),
            ("eps", "1e-8"),
            ("decay", "0.0"),
            ("tables", ""),
        ],
    ),
    (
        "adamw",
        &[
            ("rate", "0.001"),
            ("beta1", "0.9"),
            ("beta2", "0.999"),
            ("eps", "1e-8"),
            ("decay", "0.01"),
            ("tables", ""),
        ],
    ),
    ("sgd", &[("rate", "0.01"), ("momentum", ""), ("tables", "")]),
    (
        "muon",
        &[
            ("rate", "0.02"),
            ("momentum", "0.95"),
            ("adam", "0.001"),
            ("beta1", "0.9"),
            ("beta2", "0.999"),
            ("eps", "1e-8"),
            ("decay", "0.0"),
            ("tables", ""),
        ],
    ),
];

/// Settings that are dtypes.
pub(super) const DTYPES: [&str; 2] = ["moments", "master"];

/// Settings that are the share of an average that stays from step to step.
const SHARES: [&str; 3] = ["beta1", "beta2", "momentum"];

impl Resolver<'_> {
    pub(super) fn optimize(&mut self, written: &ast::Optimizer, span: Span) {
        if !self.may_optimize(span) {
            return;
        }
        let Some(settings) = self.settings(written) else { return };
        let over = match &written.over {
            None => Some(StateOver::Parameter),
            Some(ast::StateOver::Open) => Some(StateOver::Open),
            Some(ast::StateOver::Axes(words)) => self.axis_words(words).map(|mut axes| {
                axes.retain(|axis| axis.size(&self.mesh) > 1);
                StateOver::Axes(axes)
            }),
        };
        let Some(over) = over else { return };
        let text = print::statement(&ast::Statement::Optimizer(written.clone()), "");
        let of = |name: &str| {
            settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        };
        let number = |name: &str| of(name).unwrap_or_default();
        let dtype = |name: &str| of(name).and_then(|dtype| DType::from_name(&dtype));
        let adam = |rate: &str| Rule::Adam {
            betas: ["beta1", "beta2"].map(number),
            step: [rate, "eps", "decay"].map(number),
        };
        let rule = match written.name.node.as_str() {
            "sgd" => Rule::Sgd {
                rate: number("rate"),
                momentum: of("momentum").filter(|number| !number.is_empty()),
            },
            "muon" => Rule::Muon {
                rate: number("rate"),
                momentum: number("momentum"),
                others: Box::new(adam("adam")),
            },
            _ => adam("rate"),
        };
        let moments = dtype("moments").unwrap_or(DType::F32);
        let (master, tables) = (dtype("master"), of("tables").filter(|rate| !rate.is_empty()));
        self.optimizer = Some(Optimizer { rule, tables, moments, master, over, text, span });
    }

    /// Whether an optimizer may be here; reports it if not.
    fn may_optimize(&mut self, span: Span) -> bool {
        let (message, help) = if self.mode == Mode::Explicit {
            (
                "an explicit program updates nothing by itself",
                "write the update statements out, or leave `plan` out",
            )
        } else if self.inside().is_some() {
            (
                "an optimizer stands inside a `repeat`",
                "write it once, outside: it updates the parameters of every layer",
            )
        } else if self.without_gradients {
            // What is wrong with `backward` is reported.
            return false;
        } else if self.backward.is_none() {
            ("there are no gradients to update parameters by", "write `backward from …` before it")
        } else if let Some(first) = &self.optimizer {
            let diag = Diag::error(codes::MISPLACED, "parameters are updated twice", span, "again")
                .and(first.span, "first here");
            self.error(diag.help("keep one optimizer"));
            return false;
        } else {
            return true;
        };
        self.error(Diag::error(codes::MISPLACED, message, span, "not here").help(help));
        false
    }

    /// Every setting of the optimizer, as written or by default.
    fn settings(&mut self, written: &ast::Optimizer) -> Option<Vec<(&'static str, String)>> {
        let name = &written.name;
        let Some((_, known)) = KNOWN.iter().find(|(known, _)| *known == name.node) else {
            let names = KNOWN.map(|(known, _)| known);
            let diag = Diag::error(
                codes::UNKNOWN,
                format!("`{}` is not a known optimizer", name.node),
                name.span,
                "unknown",
            );
            self.error(diag.help(one_of(&name.node, &names, "optimizers")));
            return None;
        };
        let mut settings: Vec<(&str, String)> =
            known.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        settings.extend(DTYPES.map(|name| (name, String::new())));
        let mut complete = true;
        for setting in &written.settings {
            complete &= self.set(&mut settings, &setting.name, &setting.value).is_some();
        }
        complete.then_some(settings)
    }

    fn set(
        &mut self,
        settings: &mut [(&'static str, String)],
        name: &Name,
        value: &Name,
    ) -> Option<()> {
        let Some((known, slot)) = settings.iter_mut().find(|(known, _)| *known == name.node) else {
            let names: Vec<&str> = settings.iter().map(|(known, _)| *known).collect();
            let diag = Diag::error(
                codes::SETTING,
                format!("`{}` is not a setting of this optimizer", name.node),
                name.span,
                "unknown",
            );
            self.error(diag.help(one_of(&name.node, &names, "settings")));
            return None;
        };
        let is_dtype = DTYPES.contains(known);
        let is_share = SHARES.contains(known);
        let fits = if is_dtype {
            DType::from_name(&value.node).is_some_and(DType::is_float)
        } else {
            is_number(&value.node)
                && !(is_share && value.node.parse().is_ok_and(|it: f64| it >= 1.0))
        };
        if fits {
            slot.clone_from(&value.node);
            return Some(());
        }
        let (wanted, help) = if is_dtype {
            ("a float dtype", format!("write f32, bf16, f16 or fp8, as in `{}=f32`", name.node))
        } else {
            let example = if slot.is_empty() { "0.9" } else { slot };
            let (wanted, range) = if is_share {
                ("a number below 1", "a number from 0 to 1")
            } else {
                ("a number", "a number from 0 up")
            };
            (wanted, format!("write {range}, as in `{}={example}`", name.node))
        };
        self.error(
            Diag::error(
                codes::SETTING,
                format!("`{}` is not {wanted}", value.node),
                value.span,
                "not understood",
            )
            .help(help),
        );
        None
    }
}

/// Whether a setting is a number that programs can be printed with and read again.
fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn one_of(given: &str, known: &[&str], plural: &str) -> String {
    suggest::nearest(given, known.iter().copied()).map_or_else(
        || format!("the {plural} are {}", known.join(", ")),
        |near| format!("did you mean `{near}`?"),
    )
}
