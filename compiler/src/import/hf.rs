//! `import hf config.json`: the program of a model that a Hugging Face configuration describes.
//!
//! A configuration is read once into an [`architecture::Architecture`], which says what the model
//! computes in the terms of programs; families differ in [`families`] only, where each is a row.
//! One writer writes all of them: what one family has, any other could have.
//!
//! Parameters, inputs and caches are free (`W[D_?, F_?]`), so that the search chooses their
//! shardings. What a program cannot say becomes a comment and a warning, and so does every field
//! that is not known here: nothing is dropped silently.

mod architecture;
mod attention;
mod config;
mod dims;
mod families;
mod feed_forward;
mod layers;
mod machine;
mod reading;
mod writer;

use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::{Hardware, Options, Severity};

/// The step that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, VariantArray, EnumMessage, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Step {
    /// Loss, gradients and optimizer.
    #[default]
    Train,
    /// Prompts: keys and values leave for the cache.
    Prefill,
    /// A token of every sequence, with a cache.
    Decode,
}

impl Step {
    /// As `--for` writes it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What a configuration leaves open.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// The step.
    pub step: Step,
    /// Sequences; without it, a few for each device.
    pub batch: Option<u64>,
    /// Tokens of a sequence, in decode those of its cache; without it, 4096 (8192 to serve), or the
    /// model's maximum if that is less.
    pub sequence: Option<u64>,
    /// As after `mesh`; without it, as many devices as hold the parameters and their optimizer.
    pub mesh: Option<String>,
    /// The chip; `h100` without it.
    pub hardware: Option<String>,
    /// Chips beside the presets.
    pub known: Vec<Hardware>,
}

/// A program, and what it leaves out.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The program's text.
    pub program: String,
    /// What the program cannot say, one sentence each; they are comments in it, too.
    pub warnings: Vec<String>,
}

/// The program of the model that a `config.json` describes.
///
/// ```
/// use shardwise::import::hf::{Setting, program};
/// let config = r#"{"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
///     "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
///     "rms_norm_eps": 1e-6}"#;
/// let imported = program(config, &Setting::default())?;
/// assert!(imported.program.contains("repeat L=32 {") && imported.warnings.is_empty());
/// let planned = shardwise::plan("llama", &imported.program, &shardwise::Options::default());
/// assert!(planned.is_ok());
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// A sentence without the file's name: the text is no JSON object, its `model_type` is unknown, or
/// a field is missing or has another type.
pub fn program(config: &str, setting: &Setting) -> Result<Imported, String> {
    let (architecture, warnings) = reading::read(config, setting.step)?;
    let machine = machine::Machine::of(&architecture, setting)?;
    let text = writer::write(&architecture, &machine, setting.step, &warnings);
    let program = crate::format("import", &text).map_err(|findings| findings.to_string())?;
    // Axes and sizes are the user's, and nobody has read them as a program yet.
    let options = Options { known: setting.known.clone(), ..Options::default() };
    let reports = crate::check("import", &program, &options).findings.reports;
    match reports.iter().find(|report| report.diag.severity == Severity::Error) {
        Some(wrong) => Err(format!("its program would be wrong: {}", wrong.diag.message)),
        None => Ok(Imported { program, warnings }),
    }
}

/// The values of `model_type` that are known.
pub fn model_types() -> impl Iterator<Item = &'static str> {
    families::FAMILIES.iter().map(|family| family.model_type)
}
