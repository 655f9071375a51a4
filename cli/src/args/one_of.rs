//! Parses the enums of the library by the names that these give their variants, so that no enum is
//! declared here a second time. (`clap::ValueEnum` would have to be derived in the library, which
//! then depends on clap.)

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
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
            Some(text) => value.help(text.replace('\n', " ")),
            None => value,
        }
    });
    PossibleValuesParser::new(values).map(|name| {
        let named = T::VARIANTS.iter().find(|&&variant| <&str>::from(variant) == name);
        *named.expect("clap accepts only the names of variants")
    })
}
