//! The parts that an axis is used in, as declarations and options give them.

use shardwise_grammar::ast::AxisDecl;
use shardwise_grammar::span::Spanned;

use super::Resolver;
use super::machine::over_text;
use super::overrides::of_option;
use crate::Diag;
use crate::codes::mesh as codes;
use crate::mesh::Axis;

impl Resolver<'_> {
    /// The sizes of the parts that an option gives; none where it gives one, the axis itself.
    pub(super) fn given_parts(&mut self, name: &str, given: &[u64], size: u64) -> Option<Vec<u64>> {
        if given == [size] {
            return Some(Vec::new());
        }
        if are_parts(given, size) {
            return Some(given.to_vec());
        }
        let parts = over_text(given);
        let message = format!(
            "`{parts}`, given by option, does not divide axis `{name}` of {size} into parts"
        );
        self.error(of_option(codes::BAD_AXIS, message).help(parts_help(name, size, &parts, true)));
        None
    }

    /// The sizes of the parts that a declaration writes: their product is the size.
    pub(super) fn written_parts(
        &mut self,
        axis: &AxisDecl,
        written: &Spanned<Vec<u64>>,
        size: u64,
        by_option: bool,
    ) -> Option<Vec<u64>> {
        if are_parts(&written.node, size) {
            return Some(written.node.clone());
        }
        let (name, parts) = (&axis.name.node, over_text(&written.node));
        let message = format!("`{parts}` does not divide axis `{name}` of {size} into parts");
        let diag = Diag::error(codes::BAD_AXIS, message, written.span, "not its parts");
        self.error(diag.help(parts_help(name, size, &parts, by_option)));
        // The parts that are written are no further mistakes where they are used.
        self.bad_axes.extend((0..written.node.len()).map(|part| format!("{name}.{part}")));
        None
    }

    /// Reports parts of which one would end inside of a physical axis.
    pub(super) fn parts_do_not_fit(&mut self, decl: &AxisDecl, axis: &Axis) {
        let physical: Vec<u64> = axis.physical.iter().map(|axis| axis.size).collect();
        let (links, span) = (over_text(&physical), decl.parts.as_ref().map(|parts| parts.span));
        let message =
            format!("`{}` runs over links of {links}, and these parts cut them", axis.name);
        let diag = Diag::error(codes::BAD_AXIS, message, span.unwrap_or(decl.name.span), "parts");
        let help = format!("parts are as long as the links, or divide them: `as {links}`");
        self.error(diag.help(help));
        let parts = 0..decl.parts.as_ref().map_or(0, |parts| parts.node.len());
        self.bad_axes.extend(parts.map(|part| format!("{}.{part}", axis.name)));
    }
}

/// Whether an axis of `size` can be used in these parts.
fn are_parts(parts: &[u64], size: u64) -> bool {
    let product = parts.iter().try_fold(1_u64, |n, &part| n.checked_mul(part));
    parts.len() > 1 && parts.iter().all(|&part| part > 1) && product == Some(size)
}

/// What to write instead of `parts`: in the program, or in the option that gives the size.
fn parts_help(name: &str, size: u64, parts: &str, by_option: bool) -> String {
    let part = (2..=size / 2).take(1 << 16).find(|&part| size.is_multiple_of(part));
    match (part, by_option) {
        (None, false) => format!("an axis of {size} has no parts: remove `as {parts}`"),
        (None, true) => format!(
            "an axis of {size} has no parts: `--mesh \"{name}={size} as {size}\"` uses it whole"
        ),
        (Some(part), _) => {
            let example = format!("{name}={size} as {}x{part}", size / part);
            let option = format!("`--mesh \"{example}\"`");
            let written = format!("`mesh {example}`");
            let example = if by_option { option } else { written };
            format!("give sizes from 2 on whose product is {size}: {example}")
        }
    }
}
