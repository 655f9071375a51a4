//! The statements of a candidate's machine: hardware as it is priced, and the mesh.

use shardwise_grammar::ast::{HardwareRef, Setting, Statement};
use shardwise_grammar::print;
use shardwise_grammar::span::{Span, Spanned};
use shardwise_ir::products::Products;

use super::Template;
use super::edits::NOWHERE;
use crate::options::{Collectives, Fusion, Rates};
use crate::tune::candidate::Candidate;
use crate::tune::machine::MeshAxis;

impl Template<'_> {
    /// Adds the edits that write the machine.
    pub(super) fn machine(&self, candidate: &Candidate, edits: &mut Vec<(Span, String)>) {
        let axes = candidate.shape.axes.iter().map(|axis: &MeshAxis| axis.text.as_str());
        let mut mesh = Some(format!("mesh {}", axes.collect::<Vec<_>>().join(", ")));
        let mut last = Span::new(0, 0);
        let mut has_hardware = false;
        for statement in &self.file.statements {
            match &statement.node {
                Statement::Hardware(of) => {
                    has_hardware = true;
                    last = Span::new(statement.span.end, statement.span.end);
                    let edited = Statement::Hardware(self.priced(of.clone(), candidate));
                    edits.push((statement.span, print::statement(&edited, self.source)));
                }
                Statement::Mesh(_) => edits.push((statement.span, mesh.take().unwrap_or_default())),
                _ => {}
            }
        }
        let mut missing = String::new();
        if !has_hardware && self.options.hardware.is_some() {
            let none = HardwareRef { name: None, file: None, settings: Vec::new() };
            let hardware = Statement::Hardware(self.priced(none, candidate));
            missing += &(print::statement(&hardware, self.source) + "\n");
        }
        if let Some(mesh) = mesh {
            missing += &if has_hardware { format!("\n{mesh}") } else { mesh + "\n" };
        }
        edits.push((last, missing));
    }

    /// The hardware with what the candidate and options say instead.
    fn priced(&self, mut of: HardwareRef, candidate: &Candidate) -> HardwareRef {
        if let Some(name) = &self.options.hardware {
            (of.name, of.file) = (Some(word(name)), None);
        }
        let rates = self.options.rates.map(|rates| (rates != Rates::default(), rates.name()));
        replace(&mut of, "rates", rates);
        let fusion = self.options.fusion.map(|of| (of != Fusion::default(), of.name()));
        replace(&mut of, "fusion", fusion);
        let collectives = self.options.collectives;
        let collectives = collectives.map(|of| (of != Collectives::default(), of.name()));
        replace(&mut of, "collectives", collectives);
        let products = candidate.dtypes.products().or(self.options.products);
        let products = products.map(|of| (of != Products::default(), of.name()));
        replace(&mut of, "products", products);
        of
    }
}

/// Replaces a setting, where there is something instead; a default is not written.
fn replace(of: &mut HardwareRef, name: &str, with: Option<(bool, &str)>) {
    let Some((is_written, value)) = with else { return };
    of.settings.retain(|setting| setting.name.node != name);
    if is_written {
        of.settings.push(Setting { name: word(name), value: word(value) });
    }
}

fn word(text: &str) -> Spanned<String> {
    Spanned::new(text.to_owned(), NOWHERE)
}
