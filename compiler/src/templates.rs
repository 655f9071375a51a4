//! Programs to begin with, for `shardwise new`: small enough to be read in a minute, with comments
//! that explain every statement once, and real sizes, so that their plans mean something.
//!
//! They are files and not built from parts: what is shown is what was checked, planned and verified
//! by a test. A generator with options would write programs that nobody has read; for a model with
//! a known configuration there is [`crate::import`].

/// A program to begin with.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// The name of its file, without `.shard`.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// The program.
    pub text: &'static str,
}

/// Writes the table from names and lines.
macro_rules! templates {
    ($($name:literal: $about:literal,)*) => {
        /// Every template, the simplest first.
        pub const TEMPLATES: &[Template] = &[
            $(Template {
                name: $name,
                about: $about,
                text: include_str!(concat!("templates/", $name, ".shard")),
            },)*
        ];
    };
}

templates! {
    "mlp": "two layers of weights on four chips: one collective",
    "transformer-train": "a training step of a decoder, with an optimizer",
    "moe": "the same with a mixture of experts",
    "decode": "a token of each sequence, with a cache of keys and values",
    "long-context": "training on a sequence that is split over chips",
    "pipeline": "layers on the stages of a pipeline",
}

/// The template of a name.
pub fn find(name: &str) -> Option<&'static Template> {
    TEMPLATES.iter().find(|template| template.name == name)
}

/// All templates with their lines, and how to get programs of other models.
///
/// ```
/// assert!(shardwise::templates::list().starts_with("mlp"));
/// ```
pub fn list() -> String {
    let width = TEMPLATES.iter().map(|template| template.name.len()).max().unwrap_or(0);
    let lines =
        TEMPLATES.iter().map(|Template { name, about, .. }| format!("{name:width$}  {about}\n"));
    lines.collect::<String>()
        + "\nshardwise new TEMPLATE -o FILE writes one of them. For a model on Hugging Face,\n\
           write its program from its configuration: shardwise new --from-hf config.json -o FILE\n\
           (shardwise import hf has options for other steps and sizes)\n"
}
