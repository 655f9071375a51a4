//! The text about the word at a place.

use shardwise_grammar::keywords::KEYWORDS;
use shardwise_ir::Span;
use shardwise_ir::hardware::Hardware;
use shardwise_ir::print;
use shardwise_ir::program::Program;

use super::insight::Insight;
use super::names::{Kind, Occurrence};
use super::{Document, reference};
use crate::display::units;
use crate::lint::find;

/// What is known of the program besides its text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'k> {
    /// The resolved program, if it has no errors.
    pub program: Option<&'k Program>,
    /// What its plan says.
    pub insight: Option<&'k Insight>,
}

/// The text about the word at a byte, in Markdown, and the word.
pub(super) fn hover(
    document: &Document,
    offset: usize,
    known: Known<'_>,
) -> Option<(Span, String)> {
    if let Some(name) = document.names().at(offset) {
        let text = match name.kind {
            Kind::Value => known.insight.and_then(|it| it.at(offset)).map(|it| it.text.clone()),
            Kind::Dim => dim(document, name, known),
            Kind::Axis => axis(name, known),
            Kind::Hardware => Some(hardware(name, known)),
            Kind::Code => code(name),
            Kind::Function | Kind::Collective | Kind::Dtype => word(&name.name),
            Kind::Block => None,
        };
        let text = text.or_else(|| declaration(document, name))?;
        return Some((name.word, text));
    }
    let span = keyword(document, offset)?;
    word(&document.text[span.start..span.end]).map(|text| (span, text))
}

/// The keyword at a byte.
fn keyword(document: &Document, offset: usize) -> Option<Span> {
    let tokens = document.tokens();
    let at = tokens.iter().find(|it| it.span.start <= offset && offset < it.span.end)?;
    KEYWORDS.contains(&&document.text[at.span.start..at.span.end]).then_some(at.span)
}

/// The sentences of the reference.
fn word(name: &str) -> Option<String> {
    let word = reference::words().iter().find(|word| word.name == name)?;
    Some(format!("```shardwise\n{}\n```\n{}", word.signature, word.meaning))
}

fn code(name: &Occurrence) -> Option<String> {
    let lint = find(&name.name)?;
    Some(format!("**{}** {}\n\n{}\n\n{}", lint.code, lint.name, lint.what, lint.why))
}

/// The line that declares or defines a name.
fn declaration(document: &Document, name: &Occurrence) -> Option<String> {
    let definition = document.names().definition(name)?;
    let holds = |span: Span| span.start <= definition.span.start && definition.span.end <= span.end;
    let statement = document.file.statements.iter().find(|it| holds(it.span))?;
    let text = document.text[statement.span.start..statement.span.end].trim_end_matches('{');
    Some(format!("```shardwise\n{}\n```", text.trim_end()))
}

fn dim(document: &Document, name: &Occurrence, known: Known<'_>) -> Option<String> {
    let word = &document.text[name.word.start..name.word.end];
    let dims = &known.program?.dims;
    let dim = dims.iter().find(|dim| dim.name == word)?;
    let pad = if dim.pad { ", may be padded" } else { "" };
    let order = dim.zigzag.map(|order| format!(", zigzag order of {} pairs", order.pairs));
    Some(format!("dimension **{word}** = {}{pad}{}", dim.size, order.unwrap_or_default()))
}

fn axis(name: &Occurrence, known: Known<'_>) -> Option<String> {
    let mesh = &known.program?.mesh;
    let (axis, parts) = mesh.declared().find(|(axis, _)| axis.name == name.name)?;
    let devices = units::counted(axis.size, "device");
    Some(format!("mesh axis `{}`: {devices}", print::axis(axis, &parts)))
}

/// The chip's figures, and those of the step, for editors that show no code lens.
fn hardware(name: &Occurrence, known: Known<'_>) -> String {
    let used = known.program.map(|program| &program.hardware);
    let chip = used.filter(|chip| chip.name == name.name).cloned();
    let chip = chip.or_else(|| Hardware::preset(&name.name));
    let memory = chip.and_then(|chip| chip.hbm_bytes).map(units::bytes);
    let memory = memory.map_or_else(String::new, |bytes| format!(": {bytes} of memory"));
    let summary = known.insight.map(|it| format!("\n\n{}", it.summary)).unwrap_or_default();
    format!("**{}**{memory}{summary}", name.name)
}

#[cfg(test)]
mod tests {
    use super::super::{Document, Insight, Known};
    use crate::Options;

    const PROGRAM: &str = "\
hardware tpu-v5p
mesh X=4, Y=2
dim B=65536, D=4096, F=4*D
input In[B_X, D]
param W[D_X, F_Y]
H = gelu(In *D W)
output H[B_X, F_Y]
";

    fn at(mark: &str) -> String {
        let document = Document::new("mlp.shard", PROGRAM);
        let options = Options::default();
        let checked = document.check(&options);
        let planned = crate::plan("mlp.shard", PROGRAM, &options).expect("a plan");
        let insight = Insight::of(&document, &planned);
        let program = checked.program.as_deref();
        let known = Known { program, insight: Some(&insight) };
        let offset = PROGRAM.find(mark).expect("it is there");
        document.hover(offset, known).map(|(_, text)| text).unwrap_or_default()
    }

    #[test]
    fn a_value_has_its_shapes_bytes_and_collectives() {
        let text = at("W[D_X");
        // 4096 × 16384 values of 2 bytes, split over 8 devices, then over 2.
        for part in [
            "`bf16[4096, 16384]`: 134 MB",
            "- `[D_X, F_Y]`: `[1024, 8192]`, 16.8 MB on a device",
            "- `[D, F_Y]`: `[4096, 8192]`, 67.1 MB on a device",
            "AllGather_X(W[D_X, F_Y])",
            "needed by line 6",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }

    #[test]
    fn other_words_have_a_sentence() {
        assert_eq!(at("F=4"), "dimension **F** = 16384");
        assert_eq!(at("Y=2"), "mesh axis `Y=2`: 2 devices");
        assert!(at("gelu").contains("gelu(x)"));
        assert!(at("param").contains("weight"));
        let chip = at("tpu-v5p");
        assert!(chip.contains("96 GB of memory") && chip.contains("optimal plan"), "{chip}");
    }
}
