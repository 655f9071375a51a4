//! The fields of a configuration: typed, with the family's defaults for those that it lacks. A
//! field is marked as it is read, so that those that nobody reads can be reported.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A configuration.
pub(super) struct Config {
    fields: Map<String, Value>,
    defaults: Map<String, Value>,
    read: BTreeSet<&'static str>,
}

/// Fields that a program does not depend on.
const WITHOUT_EFFECT: &[&str] = &[
    "architectures",
    "attn_implementation",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "eos_token_id",
    "ep_size",
    "head_dim",
    "initial_context_length",
    "initializer_range",
    "is_encoder_decoder",
    "max_position_embeddings",
    "max_window_layers",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "qk_head_dim",
    "return_dict",
    "rope_interleave",
    "rope_local_base_freq",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "transformers_version",
    "use_cache",
];

/// The largest size of a model that is believed: a thousand times those of today.
const LARGEST: u64 = 1 << 32;

/// The names that a field has in different families.
type Fields<'f> = &'f [&'static str];

impl Config {
    pub(super) fn new(fields: Map<String, Value>, defaults: &str) -> Self {
        let defaults = serde_json::from_str(defaults).expect("defaults of families are objects");
        Self { fields, defaults, read: BTreeSet::new() }
    }

    /// The first of these fields that is there and not `null`, with its name.
    fn find(&mut self, names: Fields) -> Option<(&'static str, &Value)> {
        self.read.extend(names);
        let sources = [&self.fields, &self.defaults];
        let mut found = sources
            .into_iter()
            .flat_map(|source| names.iter().filter_map(|&name| Some((name, source.get(name)?))));
        // A `null` in the file is no default's business: the field is absent on purpose.
        found.next().filter(|(_, value)| !value.is_null())
    }

    /// A whole number above zero, if there is one.
    pub(super) fn maybe_whole(&mut self, names: Fields) -> Result<Option<u64>, String> {
        let Some((name, value)) = self.find(names) else { return Ok(None) };
        let whole = value.as_u64().filter(|&whole| whole > 0);
        let whole = whole.ok_or_else(|| wrong(name, value, "a whole number above zero"))?;
        if whole > LARGEST {
            return Err(format!("`{name}` is {whole}, more than a model's can be ({LARGEST})"));
        }
        Ok(Some(whole))
    }

    /// A whole number above zero.
    pub(super) fn whole(&mut self, names: Fields) -> Result<u64, String> {
        self.maybe_whole(names)?.ok_or_else(|| missing(names))
    }

    /// A whole number that may be zero; zero without it.
    pub(super) fn count(&mut self, name: &'static str) -> Result<u64, String> {
        let Some((name, value)) = self.find(&[name]) else { return Ok(0) };
        value.as_u64().ok_or_else(|| wrong(name, value, "a whole number"))
    }

    /// A number, if there is one.
    pub(super) fn number(&mut self, name: &'static str) -> Result<Option<f64>, String> {
        let Some((name, value)) = self.find(&[name]) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| wrong(name, value, "a number"))
    }

    /// A number above zero, if there is one.
    pub(super) fn positive(&mut self, name: &'static str) -> Result<Option<f64>, String> {
        match self.number(name)? {
            Some(number) if number <= 0.0 => {
                Err(format!("`{name}` is {number}, not a number above zero"))
            }
            number => Ok(number),
        }
    }

    /// `true` or `false`, which it is without the field.
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, String> {
        let Some((name, value)) = self.find(&[name]) else { return Ok(false) };
        value.as_bool().ok_or_else(|| wrong(name, value, "true or false"))
    }

    /// A text, if there is one.
    pub(super) fn text(&mut self, names: Fields) -> Result<Option<String>, String> {
        let Some((name, value)) = self.find(names) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| wrong(name, value, "a text"))?;
        Ok(Some(text.to_owned()))
    }

    /// The elements of a list, if there is one.
    pub(super) fn list(&mut self, name: &'static str) -> Result<Option<Vec<Value>>, String> {
        let Some((name, value)) = self.find(&[name]) else { return Ok(None) };
        let list = value.as_array().ok_or_else(|| wrong(name, value, "a list"))?;
        Ok(Some(list.clone()))
    }

    /// A number inside an object, if there are both.
    pub(super) fn inside(&self, object: &str, name: &str) -> Option<f64> {
        self.fields.get(object)?.get(name)?.as_f64()
    }

    /// Whether the field is there, and says something.
    pub(super) fn has(&mut self, name: &'static str) -> bool {
        self.find(&[name]).is_some()
    }

    /// Fields that nobody has read and that are not known to be without effect.
    pub(super) fn unread(&self) -> impl Iterator<Item = &str> {
        let is_unread = |name: &&str| {
            !self.read.contains(name) && !WITHOUT_EFFECT.contains(name) && !name.starts_with('_')
        };
        let fields = self.fields.iter().filter(|(_, value)| says_something(value));
        fields.map(|(name, _)| name.as_str()).filter(is_unread)
    }
}

/// Whether a value is other than nothing: `null`, `false`, zero, or empty.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_on) => *is_on,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

fn missing(names: Fields) -> String {
    format!("there is no field `{}`", names.join("` or `"))
}

/// The message for a field of another type.
pub(super) fn wrong(name: &str, value: &Value, expected: &str) -> String {
    let mut shown = value.to_string();
    if shown.chars().count() > 60 {
        shown = shown.chars().take(57).collect::<String>() + "...";
    }
    format!("`{name}` is {shown}, not {expected}")
}
