//! Hardware files: TOML descriptions of chips that programs may name beside the presets. Prints
//! presets as such files, to start from.
//!
//! Every table is a chip. With `base`, missing keys come from another chip, since most files add
//! measurements to a known chip. Keys are flat and in base units (bytes, seconds, FLOP/s), so that
//! no number needs a suffix; a missing key is unknown, and a program that needs it is refused.
//! Every mistake is reported at its place, since an ignored key would make prices wrong. This
//! module reads no files.

mod contradictions;
pub mod named_file;
pub(crate) mod numbers;

use std::ops::Range;

use indexmap::IndexMap;
use shardwise_ir::codes::mesh::{BAD_HARDWARE, UNCLEAR_HARDWARE};
use shardwise_ir::hardware::{Hardware, Wraparound};
use shardwise_ir::{Diag, Span, suggest};
use toml::{Spanned, Value};

use crate::diagnostics::Findings;

use numbers::{Number, Scale};

type Table = IndexMap<Spanned<String>, Spanned<Value>>;

/// The other keys.
const OTHERS: [&str; 6] = ["base", "links", "wraparound", "pod", "link_hop", "network_hop"];

/// What a hardware file looks like, for errors about files that do not.
pub(crate) const FORM: &str =
    "a hardware file has a table for each chip: `[my-chip]`, then keys such as `bf16 = 1e15`";

/// Reads the text of a hardware file, which errors call `name`.
///
/// # Errors
///
/// All mistakes, with their places: text that is no TOML, keys that are unknown or missing, figures
/// that are out of range.
///
/// ```
/// let text = "[my-h100]\nbase = \"h100\"\nlink_bandwidth = 370e9 # measured\n";
/// let known = shardwise::hardware::parse("hw.toml", text).unwrap();
/// assert_eq!(known[0].name, "my-h100");
/// assert_eq!((known[0].link_bandwidth, known[0].dcn_bandwidth), (Some(370e9), Some(50e9)));
/// assert!(shardwise::hardware::parse("hw.toml", "[a]\nbf16 = 0\n").is_err());
/// ```
pub fn parse(name: &str, text: &str) -> Result<Vec<Hardware>, Findings> {
    chips(text).map_err(|diags| Findings::new(diags, name, text))
}

/// The same, with the mistakes as they are.
pub(crate) fn chips(text: &str) -> Result<Vec<Hardware>, Vec<Diag>> {
    let mut tables: IndexMap<Spanned<String>, Table> =
        toml::from_str(text).map_err(|error| vec![unreadable(&error, text)])?;
    // In the order of the file, which is not that of the reader.
    tables.sort_by(|a, _, b, _| a.span().start.cmp(&b.span().start));
    let mut reader = Reader {
        named: tables.keys().map(|name| name.get_ref().clone()).collect(),
        ..Reader::default()
    };
    for (name, table) in tables {
        reader.chip(&name, &table);
    }
    if reader.known.is_empty() && reader.diags.is_empty() {
        let diag = Diag::error(
            BAD_HARDWARE,
            "the file describes no chip",
            Span::default(),
            "nothing here",
        );
        reader.diags.push(diag.help("write a table for each chip: `[my-chip]`, then its keys"));
    }
    reader.diags.sort_by_key(|diag| diag.labels.first().map(|label| label.span));
    if reader.diags.is_empty() { Ok(reader.known) } else { Err(reader.diags) }
}

/// Whether a text has something of a hardware file: a table with one of its keys, or, where it is
/// no TOML, a line with one that no other file is likely to have.
pub(crate) fn describes_hardware(text: &str) -> bool {
    let is_key =
        |key: &str| OTHERS.contains(&key) || numbers::all().any(|(known, ..)| *known == key);
    let is_rare = |key: &str| is_key(key) && key.contains(|c: char| c == '_' || c.is_ascii_digit());
    let tables: IndexMap<String, Value> = toml::from_str(text).unwrap_or_default();
    let mut tables = tables.values().filter_map(Value::as_table);
    tables.any(|table| table.keys().any(|key| is_key(key)))
        || text.lines().filter_map(|line| line.split_once('=')).any(|(key, _)| is_rare(key.trim()))
}

/// The chip whose name is nearest to one that is not among them.
///
/// ```
/// let chips: Vec<_> = shardwise::Hardware::preset_names()
///     .filter_map(shardwise::Hardware::preset)
///     .collect();
/// assert_eq!(shardwise::hardware::nearest("h10", &chips), Some("h100"));
/// ```
pub fn nearest<'h>(name: &str, chips: &'h [Hardware]) -> Option<&'h str> {
    suggest::nearest(name, chips.iter().map(|chip| chip.name.as_str()))
}

/// The name of the first table in another one that has nothing else: `[h100.80gb]` is that in TOML.
fn inner_table(table: &Table) -> Option<&Spanned<String>> {
    let has_tables_alone = table.values().all(|value| value.get_ref().is_table());
    table.keys().next().filter(|_| has_tables_alone)
}

/// A chip whose name belongs to another one with other numbers.
pub fn clash<'h>(chips: impl IntoIterator<Item = &'h Hardware>) -> Option<&'h Hardware> {
    let mut seen: IndexMap<&str, &Hardware> = IndexMap::new();
    chips
        .into_iter()
        .find(|chip| seen.insert(chip.name.as_str(), chip).is_some_and(|other| other != *chip))
}

fn unreadable(error: &toml::de::Error, text: &str) -> Diag {
    let message = error.message().lines().next().unwrap_or("not understood");
    // The error of serde for a key before the first table.
    let message = if message.ends_with("expected a map") {
        "this stands in no chip's table"
    } else {
        message
    };
    let span = error.span().map_or(Span::default(), to_span);
    let diag = Diag::error(BAD_HARDWARE, message, span, "here");
    diag.help(number_before(text, span).unwrap_or_else(|| FORM.to_owned()))
}

/// What the key wants in whose value a place is no TOML, such as `80GB`.
fn number_before(text: &str, at: Span) -> Option<String> {
    let (key, _) = text.get(..at.start)?.rsplit('\n').next()?.split_once('=')?;
    let number = numbers::all().find(|(known, ..)| *known == key.trim())?;
    Some(format!("write a number without its unit, such as {}", numbers::example(number)))
}

fn to_span(range: Range<usize>) -> Span {
    Span::new(range.start, range.end)
}

/// The chips read so far, and every mistake.
#[derive(Default)]
struct Reader {
    known: Vec<Hardware>,
    /// The names of all chips of the file.
    named: Vec<String>,
    diags: Vec<Diag>,
}

impl Reader {
    fn wrong(&mut self, message: String, span: Range<usize>, help: impl Into<String>) {
        self.diags.push(Diag::error(BAD_HARDWARE, message, to_span(span), "here").help(help));
    }

    fn chip(&mut self, name: &Spanned<String>, table: &Table) {
        if let Some(inner) = inner_table(table) {
            let (first, second) = (name.get_ref(), inner.get_ref());
            let message = format!("`{first}.{second}` are two tables, one in the other");
            let help = format!("quote a name with a point in it: `[\"{first}.{second}\"]`");
            self.wrong(message, name.span().start..inner.span().end, help);
            return;
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !name.get_ref().chars().all(fits) || name.get_ref().is_empty() {
            let message = format!("`{}` is no name of hardware", name.get_ref());
            self.wrong(
                message,
                name.span(),
                "programs can write letters, digits, `-`, `_` and `.`",
            );
        }
        let get = |key: &str| {
            table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
        };
        let mut chip = match get("base") {
            Some(base) => self.base(base, name.get_ref()),
            None => Some(Hardware::unknown("")),
        };
        let Some(hardware) = &mut chip else { return };
        hardware.name.clone_from(name.get_ref());
        self.links(hardware, get("links"), get("wraparound"));
        for (key, value) in table {
            self.key(hardware, key, value);
        }
        self.context(hardware, table);
        self.pod_of_switch(hardware, get("pod").or_else(|| get("links")));
        self.slower_when_narrower(hardware, table);
        // A base that lacks one is reported itself.
        let given = get("bf16").or_else(|| get("fp8")).or_else(|| get("base"));
        if given.is_none() && hardware.bf16_flops.is_none() && hardware.fp8_flops.is_none() {
            let message = format!("`{}` has no rate of arithmetic", name.get_ref());
            self.wrong(message, name.span(), "give `bf16`, in FLOP/s");
        }
        if Hardware::preset(&hardware.name).is_some_and(|preset| preset != *hardware) {
            let message = format!("`{}` is a preset, with other numbers", hardware.name);
            let help = format!(
                "call it otherwise: `[my-{0}]`, perhaps with `base = \"{0}\"`",
                hardware.name
            );
            self.diags.push(
                Diag::error(UNCLEAR_HARDWARE, message, to_span(name.span()), "taken").help(help),
            );
        }
        self.known.extend(chip);
    }

    /// The chip that another one starts from: one above it in the file, or a preset.
    fn base(&mut self, value: &Spanned<Value>, of: &str) -> Option<Hardware> {
        let name = self.word(value, "the name of a chip")?;
        let found = self
            .known
            .iter()
            .find(|known| known.name == name)
            .cloned()
            .or_else(|| Hardware::preset(&name).filter(|_| name != of));
        if found.is_none() && name == of {
            self.wrong(
                format!("`{name}` cannot be its own base"),
                value.span(),
                "name another chip, or leave `base` out",
            );
        } else if found.is_none() && self.named.contains(&name) {
            let help = format!(
                "move `[{name}]` above `[{of}]`, and let no base lead back to a chip that it is \
                    the base of"
            );
            self.wrong(format!("`{name}` is not described above this"), value.span(), help);
        } else if found.is_none() {
            let presets = Hardware::preset_names().map(str::to_owned);
            let names: Vec<String> =
                self.known.iter().map(|known| known.name.clone()).chain(presets).collect();
            let help = one_of(&name, &names.iter().map(String::as_str).collect::<Vec<_>>());
            self.wrong(format!("`{name}` is not known hardware"), value.span(), help);
        }
        found
    }

    /// The links of chips, given by two keys together.
    fn links(
        &mut self,
        hardware: &mut Hardware,
        links: Option<&Spanned<Value>>,
        wraparound: Option<&Spanned<Value>>,
    ) {
        let (before_links, before_wraps) = hardware.wraparound.names();
        let links_word = links.map(|links| self.word(links, "a word"));
        let wraps_word = wraparound.map(|wraps| self.word(wraps, "a word"));
        let (Some(kind), Some(wraps)) = (
            links_word.unwrap_or(Some(before_links.to_owned())),
            wraps_word.unwrap_or(Some(before_wraps.unwrap_or("whole-pod").to_owned())),
        ) else {
            return;
        };
        if let Some(links) = links.filter(|_| !["torus", "switch"].contains(&kind.as_str())) {
            let help = one_of(&kind, &["torus", "switch"]);
            self.wrong(format!("`{kind}` is no kind of links"), links.span(), help);
            return;
        }
        let known: Vec<&str> = Wraparound::ALL.iter().filter_map(|known| known.names().1).collect();
        if let Some(wraparound) =
            wraparound.filter(|_| kind == "switch" || !known.contains(&wraps.as_str()))
        {
            let (message, help) = if kind == "switch" {
                (
                    "a switch has no axes that could wrap".to_owned(),
                    "leave `wraparound` out, or write `links = \"torus\"`".to_owned(),
                )
            } else {
                (format!("`{wraps}` does not define which axes wrap"), one_of(&wraps, &known))
            };
            self.wrong(message, wraparound.span(), help);
            return;
        }
        let named =
            |of: &Wraparound| of.names().0 == kind && of.names().1.is_none_or(|word| word == wraps);
        hardware.wraparound =
            Wraparound::ALL.into_iter().find(named).unwrap_or(hardware.wraparound);
    }

    fn key(&mut self, hardware: &mut Hardware, key: &Spanned<String>, value: &Spanned<Value>) {
        let name = key.get_ref().as_str();
        if let Some(known @ (.., scale, field)) = numbers::all().find(|(known, ..)| *known == name)
        {
            if let Some(number) = self.number(value, *scale, &numbers::example(known)) {
                *field(hardware) = Some(number);
            }
            return;
        }
        match name {
            "link_hop" | "network_hop" => {
                let hop = self.number(value, Scale::Time, &format!("`{name} = 1e-6`: seconds"));
                let field =
                    if name == "link_hop" { &mut hardware.hop_s } else { &mut hardware.dcn_hop_s };
                *field = hop.unwrap_or(*field);
            }
            "pod" => hardware.pod = self.pod(value).unwrap_or_default(),
            "base" | "links" | "wraparound" => {}
            _ => {
                let known: Vec<&str> =
                    OTHERS.into_iter().chain(numbers::all().map(|(name, ..)| *name)).collect();
                let help = one_of(name, &known);
                self.wrong(format!("`{name}` is nothing that hardware has"), key.span(), help);
            }
        }
    }

    fn word(&mut self, value: &Spanned<Value>, wanted: &str) -> Option<String> {
        let word = value.get_ref().as_str().map(str::to_owned);
        if word.is_none() {
            self.wrong(format!("this is not {wanted}"), value.span(), "write it in quotes");
        }
        word
    }

    fn number(&mut self, value: &Spanned<Value>, scale: Scale, example: &str) -> Option<f64> {
        let number = match value.get_ref() {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        };
        let wanted = format!("write a number such as {example}");
        let Some(number) = number.filter(|&number| scale.accepts(number)) else {
            let message = if number.is_some_and(|number| !number.is_finite()) {
                "this is not a finite number"
            } else if scale.accepts(0.0) {
                "this is not zero or a number above it"
            } else {
                "this is not a number above zero"
            };
            self.wrong(message.to_owned(), value.span(), wanted);
            return None;
        };
        if !scale.has_unit(number) {
            self.wrong(scale.implausible(number), value.span(), wanted);
            return None;
        }
        Some(number)
    }

    fn pod(&mut self, value: &Spanned<Value>) -> Option<Vec<u64>> {
        let sizes = value.get_ref().as_array().and_then(|sizes| {
            let size = |size: &Value| {
                size.as_integer().and_then(|size| u64::try_from(size).ok()).filter(|&size| size > 0)
            };
            sizes.iter().map(size).collect::<Option<Vec<u64>>>().filter(|sizes| !sizes.is_empty())
        });
        let product = sizes
            .as_ref()
            .and_then(|sizes| sizes.iter().try_fold(1_u64, |n, &size| n.checked_mul(size)));
        if product.is_none() {
            let help = "give the edges of a pod (`pod = [16, 16]`), or the chips of a switched \
                domain (`pod = [8]`)";
            let is_empty = value.get_ref().as_array().is_some_and(Vec::is_empty);
            let message =
                if is_empty { "a pod has at least one edge" } else { "these are not sizes" };
            let help = if is_empty {
                format!("leave `pod` out where it has no end, or {help}")
            } else {
                help.to_owned()
            };
            self.wrong(message.to_owned(), value.span(), help);
        }
        sizes.filter(|_| product.is_some())
    }
}

fn one_of(given: &str, known: &[&str]) -> String {
    let near = suggest::nearest(given, known.iter().copied());
    near.map_or_else(
        || format!("there are {}", known.join(", ")),
        |near| format!("did you mean `{near}`?"),
    )
}

/// A chip as a hardware file, which reads back as the same chip.
pub fn toml(hardware: &Hardware) -> String {
    let mut chip = toml_edit::Table::new();
    for Entry { key, mut value, what } in entries(hardware) {
        let entry = format!("{key} = {value}");
        let gap = COMMENTS_AT.saturating_sub(entry.len());
        value.decor_mut().set_suffix(format!("{:gap$} # {what}", ""));
        chip.insert(key, value.into());
    }
    let mut file = toml_edit::DocumentMut::new();
    file.insert(&hardware.name, chip.into());
    file.to_string()
}

/// The column of the comments.
const COMMENTS_AT: usize = 29;

/// One entry of a hardware file.
#[derive(Clone, Debug)]
struct Entry {
    key: &'static str,
    value: toml_edit::Value,
    /// Its meaning, as a comment in the file.
    what: &'static str,
}

/// Key, and key with value, of all entries of a chip.
pub(crate) fn assignments(hardware: &Hardware) -> Vec<(String, String)> {
    let assignment = |Entry { key, value, .. }| (key.to_owned(), format!("{key} = {value}"));
    entries(hardware).into_iter().map(assignment).collect()
}

/// All entries of a chip in a hardware file.
fn entries(hardware: &Hardware) -> Vec<Entry> {
    let mut copy = hardware.clone();
    let mut number = |(key, what, _, field): &Number| {
        let value = written((*field(&mut copy))?);
        Some(Entry { key, value, what })
    };
    let mut entries: Vec<Entry> = numbers::PEAKS.iter().filter_map(&mut number).collect();
    let measured: Vec<Entry> = numbers::MEASURED.iter().filter_map(number).collect();
    let mut add = |key, value, what| entries.push(Entry { key, value, what });
    let (links, wraps) = hardware.wraparound.names();
    add("links", links.into(), "torus or switch");
    if let Some(wraps) = wraps {
        let what = "which axes wrap: multiples-of-4 (all of them or none), of-16, whole-pod";
        add("wraparound", wraps.into(), what);
    }
    if !hardware.pod.is_empty() {
        let edges: toml_edit::Array =
            hardware.pod.iter().map(|&edge| i64::try_from(edge).unwrap_or(i64::MAX)).collect();
        add("pod", edges.into(), "edges of a pod, or chips of a switched domain");
    }
    add("link_hop", written(hardware.hop_s), "seconds");
    add("network_hop", written(hardware.dcn_hop_s), "seconds");
    entries.extend(measured);
    entries
}

/// `0.85` and `2.5`; what is far from one as data sheets write it, `9.89e14`.
fn written(number: f64) -> toml_edit::Value {
    if number == 0.0 || (1e-4..1e4).contains(&number) {
        return number.into();
    }
    format!("{number:e}").parse().expect("Rust's exponents are TOML's")
}
