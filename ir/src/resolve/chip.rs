//! Selects the chip of a program: the one that the caller names, else the one that its `hardware`
//! statement names, among presets, the chips of the caller, and those of the file that the
//! statement names.
//!
//! A chip from a file keeps the name of the file, so that the program prints as it was written and
//! parses back. A name with a file is looked up in that file alone: `my-chip from "a.toml"` is
//! never another chip that the caller knows under the same name.

use crate::codes::{mesh as codes, names};
use shardwise_grammar::ast::{self, HardwareRef, Setting, Statement};
use shardwise_grammar::span::{Name, Span};

use strum::VariantArray;

use super::Resolver;
use super::overrides::{HardwareFile, Overrides, of_option};
use crate::collectives::Collectives;
use crate::hardware::Hardware;
use crate::products::Products;
use crate::program::{Fusion, Mode};
use crate::rates::Rates;
use crate::{Diag, suggest};

/// The label at the program's chip of what is wrong with that of an option.
const OTHER_CHIP: &str = "the options name their own chip";

impl Resolver<'_> {
    /// The chip; errors where there is none, or none that is known.
    pub(super) fn chip(&mut self, file: &ast::File, overrides: &Overrides) -> Option<Hardware> {
        let written = file.statements.iter().filter_map(|s| {
            if let Statement::Hardware(named) = &s.node { Some((named, s.span)) } else { None }
        });
        let written: Vec<(&HardwareRef, Span)> = written.collect();
        if let [(_, first), (_, again), ..] = written[..] {
            let diag =
                Diag::error(names::DUPLICATE, "the hardware is given twice", again, "given again");
            self.error(diag.and(first, "first given here").help("keep one of them"));
        }
        let chip = self.named_chip(file, &written, overrides);
        let settings = written.first().map(|(named, _)| named.settings.as_slice());
        let rates = self.settings_of_chip(settings.unwrap_or_default(), overrides);
        let chip = chip.map(|chip| {
            let price = overrides.price.or(chip.price);
            Hardware { price, rates, ..chip }
        });
        let place = written.first().map_or(Span::default(), |(_, span)| *span);
        let is_of_options = overrides.hardware.is_some();
        chip.inspect(|chip| {
            self.without_measurements(chip, (place, is_of_options));
            self.without_units(chip, (place, is_of_options));
        })
    }

    /// Notes how the program runs, and returns the rates that it is priced with: as the options
    /// say, else the `hardware` line.
    fn settings_of_chip(&mut self, settings: &[Setting], overrides: &Overrides) -> Rates {
        let (mut rates, mut fusion, mut collectives, mut products) = (None, None, None, None);
        for setting in settings {
            match setting.name.node.as_str() {
                "rates" => self.note(&mut rates, setting, Rates::name),
                "fusion" => self.note(&mut fusion, setting, Fusion::name),
                "collectives" => self.note(&mut collectives, setting, Collectives::name),
                "products" => self.note(&mut products, setting, Products::name),
                other => {
                    let what = format!("hardware has no setting `{other}`");
                    let help = "write `rates=measured`, `fusion=none`, `collectives=chunked` or \
                        `products=fp8`";
                    self.bad_setting(what, setting.name.span, help);
                }
            }
        }
        self.fusion = overrides.fusion.or(fusion).unwrap_or_default();
        self.collectives = overrides.collectives.or(collectives).unwrap_or_default();
        if self.mode == Mode::Ordinary {
            self.products = overrides.products.or(products).unwrap_or_default();
        }
        overrides.rates.or(rates).unwrap_or_default()
    }

    /// Notes the value of a setting, one of those of its type.
    fn note<T: VariantArray + Copy>(
        &mut self,
        noted: &mut Option<T>,
        Setting { name, value }: &Setting,
        text: fn(T) -> &'static str,
    ) {
        let Some(&given) = T::VARIANTS.iter().find(|&&known| text(known) == value.node) else {
            let what = format!("`{}` is not a value of `{}`", value.node, name.node);
            let forms = T::VARIANTS.iter().map(|&known| format!("`{}={}`", name.node, text(known)));
            let help = format!("write {}", forms.collect::<Vec<_>>().join(" or "));
            self.bad_setting(what, value.span, &help);
            return;
        };
        if noted.replace(given).is_some() {
            let what = format!("`{}` is given twice", name.node);
            self.bad_setting(what, name.span, "keep one of them");
        }
    }

    fn bad_setting(&mut self, what: String, span: Span, help: &str) {
        self.error(Diag::error(codes::BAD_SETTING, what, span, "here").help(help));
    }

    /// Says so where measured rates are asked for and nothing was measured on the chip.
    fn without_measurements(&mut self, chip: &Hardware, (at, is_of_options): (Span, bool)) {
        if chip.rates == Rates::Measured && chip.measured.is_empty() {
            let message = format!("`{}` has no measured rates: typical ones are taken", chip.name);
            let label = if is_of_options { OTHER_CHIP } else { "nothing measured" };
            let diag = Diag::warning(codes::NO_MEASUREMENTS, message, at, label);
            self.error(diag.help(
                "give what was measured in a hardware file (`shardwise hardware --format toml \
                    h100` prints one), or use `--rates peak`",
            ));
        }
    }

    /// An error where products are to have a dtype that the chip has no units for.
    fn without_units(&mut self, chip: &Hardware, (at, is_of_options): (Span, bool)) {
        let Some(dtype) = self.products.dtype().filter(|&dtype| !chip.multiplies(dtype)) else {
            return;
        };
        let name = dtype.name();
        let message = format!("`{}` has no units that multiply {name}", chip.name);
        let label = if is_of_options { OTHER_CHIP } else { "the chip" };
        let diag = Diag::error(codes::BAD_SETTING, message, at, label);
        self.error(diag.help(format!(
            "leave `products={name}` or `--products {name}` out; a chip of a hardware file has \
                them if it gives their peak in FLOP/s, as in `{name} = 1e15`"
        )));
    }

    fn named_chip(
        &mut self,
        file: &ast::File,
        written: &[(&HardwareRef, Span)],
        overrides: &Overrides,
    ) -> Option<Hardware> {
        match (&overrides.hardware, written.first()) {
            (Some(name), _) => self.known_chip(name, None, overrides),
            (None, Some((HardwareRef { name, file: Some(path), .. }, _))) => {
                self.chip_of_file(name.as_ref(), path, overrides.file.as_ref()?)
            }
            (None, Some((HardwareRef { name: Some(name), .. }, _))) => {
                self.known_chip(&name.node, Some(name.span), overrides)
            }
            (None, _) if file.lost.hardware => None,
            (None, _) => {
                let presets = overrides.hardware_names();
                let diag = Diag::error(
                    codes::NO_HARDWARE,
                    "the program names no hardware",
                    Span::default(),
                    "which chip?",
                );
                self.error(diag.help(format!(
                    "write `hardware tpu-v5p` or give --hardware; known are {}",
                    presets.join(", ")
                )));
                None
            }
        }
    }

    /// The chip called `name`, which stands at a place of the program or in an option.
    fn known_chip(
        &mut self,
        name: &str,
        at: Option<Span>,
        overrides: &Overrides,
    ) -> Option<Hardware> {
        let chip = overrides.hardware_called(name);
        let is_reported = overrides.file.as_ref().is_some_and(|file| file.chips.is_none());
        if chip.is_none() && !is_reported {
            let known = overrides.hardware_names();
            let message = format!("`{name}` is not known hardware");
            let diag = match at {
                Some(span) => Diag::error(codes::UNKNOWN_HARDWARE, message, span, "unknown"),
                None => of_option(
                    codes::UNKNOWN_HARDWARE,
                    format!("`{name}`, given by `--hardware`, is not known hardware"),
                ),
            };
            self.error(diag.help(format!(
                "{}known are {}",
                did_you_mean(name, &known),
                known.join(", ")
            )));
        }
        chip
    }

    /// The chip that a file describes, by its name where one is given; nothing where the file could
    /// not be read, which is reported.
    fn chip_of_file(
        &mut self,
        name: Option<&Name>,
        path: &Name,
        file: &HardwareFile,
    ) -> Option<Hardware> {
        let described: Vec<&str> =
            file.chips.as_ref()?.iter().map(|chip| chip.name.as_str()).collect();
        let Some(name) = name else {
            let [only] = described[..] else {
                let message = format!("`{}` describes {} chips", path.node, described.len());
                let which = described.first().copied().unwrap_or_default();
                let help = format!(
                    "write one of them: `hardware {which} from \"{}\"`; it has {}",
                    path.node,
                    described.join(", ")
                );
                self.error(
                    Diag::error(codes::UNCLEAR_HARDWARE, message, path.span, "which of them?")
                        .help(help),
                );
                return None;
            };
            return file.chip(only);
        };
        let chip = file.chip(&name.node);
        if chip.is_none() {
            let message = format!("`{}` is not in `{}`", name.node, path.node);
            let diag =
                Diag::error(codes::UNKNOWN_HARDWARE, message, name.span, "not described there");
            self.error(diag.help(format!(
                "{}it has {}",
                did_you_mean(&name.node, &described),
                described.join(", ")
            )));
        }
        chip
    }
}

fn did_you_mean(name: &str, known: &[&str]) -> String {
    let near = abbreviated(name, known).or_else(|| suggest::nearest(name, known.iter().copied()));
    near.map_or(String::new(), |near| format!("did you mean `{near}`? "))
}

/// The only known name of which `name` is a part, `v5p` or `gb200`; or the longest that is a part
/// of it, `h100` in `nvidia-h100-sxm`.
fn abbreviated<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let name = name.to_lowercase();
    let mut longer = known.iter().filter(|known| name.len() > 1 && known.contains(name.as_str()));
    match (longer.next(), longer.next()) {
        (Some(only), None) => Some(only),
        (None, _) => {
            let shorter = known.iter().filter(|known| name.contains(**known));
            shorter.max_by_key(|known| known.len()).copied()
        }
        (Some(_), Some(_)) => None,
    }
}
