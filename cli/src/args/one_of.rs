//! Parses the enums and the output formats of the library by the names that the library gives them,
//! so that nothing is declared here a second time. (`clap::ValueEnum` would have to be derived in
//! the library, which then depends on clap.)

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use shardwise::export::Format;
use strum::{EnumMessage, VariantArray};

/// A parser of the variants' names; help lists them with the variants' documentation.
pub(super) fn one_of<T>() -> impl TypedValueParser<Value = T>
where
    T: VariantArray + EnumMessage + Copy + Send + Sync + 'static,
    &'static str: From<T>,
{
    let values = T::VARIANTS.iter().map(|&variant| {
        let value = PossibleValue::new(<&str>::from(variant));
        match variant.get_documentation() {
            Some(text) => value.help(text.replace('\n', " ").trim_end_matches('.').to_owned()),
            None => value,
        }
    });
    PossibleValuesParser::new(values).map(|name| {
        let named = T::VARIANTS.iter().find(|&&variant| <&str>::from(variant) == name);
        *named.expect("clap accepts only the names of variants")
    })
}

/// A format's name, with its help text.
pub(super) fn possible<T: ?Sized>(format: &Format<T>) -> PossibleValue {
    PossibleValue::new(format.name).aliases(format.aliases()).help(format.about)
}

/// A parser of the names of a table of output formats.
pub(super) fn format_of<T: ?Sized>(
    table: &'static [Format<T>],
) -> impl TypedValueParser<Value = &'static Format<T>> {
    PossibleValuesParser::new(table.iter().map(possible)).map(|name| {
        let named = table.iter().find(|format| format.is_called(&name));
        named.expect("clap accepts only the names of formats")
    })
}
