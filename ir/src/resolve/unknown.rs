//! Names that nothing declares and outputs without brackets, with what was probably meant.

use shardwise_grammar::span::Name;

use super::{MOST_SEARCHES, Resolver, habits};
use crate::codes::names;
use crate::dtype::DType;
use crate::ids::ValueId;
use crate::{Diag, suggest};

impl Resolver<'_> {
    /// `Some(None)` where none is written, `None` where it is wrong.
    #[expect(clippy::option_option, reason = "absent, present and wrong are three things")]
    pub(super) fn dtype(&mut self, written: Option<&Name>) -> Option<Option<DType>> {
        let Some(name) = written else { return Some(None) };
        let found = DType::from_name(&name.node);
        if found.is_none() {
            let known = DType::ALL.map(DType::name);
            let message = format!("`{}` is not a dtype", name.node);
            let diag = Diag::error(names::UNKNOWN_DTYPE, message, name.span, "unknown dtype");
            let near = suggest::nearest(&name.node, known);
            self.error(diag.help(match (habits::dtype(&name.node), near) {
                (Some(here), _) => format!("write `{here}`; the dtypes are {}", known.join(", ")),
                (None, Some(near)) => format!("did you mean `{near}`?"),
                (None, None) => format!("the dtypes are {}", known.join(", ")),
            }));
        }
        found.map(Some)
    }

    pub(super) fn unknown_value(&mut self, name: &Name) -> Diag {
        let declare =
            format!("declare it (`input {}[…]`), or define it in an earlier statement", name.node);
        self.unknown_value_or(name, declare)
    }

    /// The same, with another help where no name is near.
    pub(super) fn unknown_value_or(&mut self, name: &Name, help: String) -> Diag {
        let diag = Diag::error(
            names::UNKNOWN_VALUE,
            format!("`{}` is not defined", name.node),
            name.span,
            "unknown",
        );
        if let Some(value) =
            habits::transposed(&name.node).filter(|value| self.value_names.contains_key(*value))
        {
            return diag
                .help(format!("write `{value}`: dimensions go by name, so nothing is transposed"));
        }
        if let Some(&dim) = self.dim_names.get(&name.node) {
            let message = format!("`{}` is a dimension, not a value", name.node);
            return Diag::error(names::UNKNOWN_VALUE, message, name.span, "a dimension")
                .help(format!("write a number: its size is {}", self.dims[dim].size));
        }
        if let Some(help) = self.of_gradient(&name.node) {
            return diag.help(help);
        }
        self.searches += 1;
        let searched =
            (self.searches <= MOST_SEARCHES).then(|| self.value_names.keys().map(String::as_str));
        match suggest::nearest(&name.node, searched.into_iter().flatten()) {
            Some(near) => diag
                .and(self.values[self.value_names[near]].span, format!("`{near}` is here"))
                .help(format!("did you mean `{near}`?")),
            None => diag.help(help),
        }
    }

    /// Where a name that is not defined would be that of a gradient: how it comes to be.
    fn of_gradient(&self, name: &str) -> Option<String> {
        let of = name.strip_prefix('d')?;
        let value = &self.values[*self.value_names.get(of)?];
        let dims: Vec<&str> = value.dims.iter().map(|&dim| &*self.dims[dim].name).collect();
        Some(format!(
            "the gradient of `{of}` is known after a line `backward from …`; one that is given is \
                declared: `input {name}[{}]`",
            dims.join(", ")
        ))
    }

    /// Reports an output without brackets, with those that it may have.
    pub(super) fn output_needs_brackets(&mut self, value: ValueId, name: &Name) {
        let dims = self.values[value].dims.iter().map(|&dim| self.dims[dim].name.as_str());
        let dims: Vec<&str> = dims.collect();
        let (whole, open) = (dims.join(", "), dims.join("_?, "));
        let Name { node: output, span } = name;
        let message = format!("output `{output}` has no brackets");
        let diag = Diag::error(names::NEEDS_BRACKETS, message, *span, "how should it leave?");
        self.error(diag.help(if dims.is_empty() {
            format!("write `output {output}[]`")
        } else {
            format!(
                "write `output {output}[{whole}]` for all of it on every device, \
                `output {output}[{open}_?]` to leave its sharding open"
            )
        }));
    }
}
