//! A point of the space: what a candidate decides, and the words for it.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use shardwise_ir::stages::{Schedule, Stages};

use super::dtypes::Dtypes;
use super::machine::Shape;
use super::{Request, stage_layers};

/// What is computed again for gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Recompute {
    /// What the program says.
    AsWritten,
    /// Nothing.
    Nothing,
    /// Every layer.
    Layers,
    /// Every layer, of which the input waits in the memory of the host.
    Offload,
    /// Everything but the results of products.
    AllButProducts,
    /// The scores of attention.
    Attention,
    /// The hidden activations of the MLP.
    Mlp,
}

impl Recompute {
    /// What can be asked for.
    pub const CHOICES: [Self; 6] = [
        Self::Nothing,
        Self::Layers,
        Self::Offload,
        Self::AllButProducts,
        Self::Attention,
        Self::Mlp,
    ];

    /// As tables print it and options name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsWritten => "as written",
            Self::Nothing => "none",
            Self::Layers => "layers",
            Self::Offload => "offload",
            Self::AllButProducts => "all-but-products",
            Self::Attention => "attention",
            Self::Mlp => "mlp",
        }
    }

    /// The choice of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::CHOICES.into_iter().find(|of| of.name() == name)
    }

    /// The statement in the layers, where there is one.
    pub(super) fn statement(self) -> Option<&'static str> {
        match self {
            Self::AsWritten | Self::Nothing => None,
            Self::Layers => Some("checkpoint"),
            Self::Offload => Some("checkpoint\ncheckpoint offload carried"),
            Self::AllButProducts => Some("checkpoint keep products"),
            Self::Attention => Some("checkpoint only attention"),
            Self::Mlp => Some("checkpoint only mlp"),
        }
    }
}

/// How microbatches go through stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct Staging {
    /// The order of forward and backward parts.
    #[serde(serialize_with = "name_of")]
    #[schemars(with = "String")]
    pub schedule: Schedule,
    /// Runs of layers on a stage.
    pub chunks: u64,
    /// The layers of the longest stage, where those that keep more microbatches have fewer layers;
    /// none: equally many, or one less.
    pub longest: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn name_of<S: Serializer>(schedule: &Schedule, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(schedule.name())
}

impl Staging {
    /// Every schedule with every number of chunks that it leaves open, or its own.
    fn all(schedules: &[Schedule], chunks: &[u64]) -> Vec<Self> {
        let of = |&schedule: &Schedule| {
            let chunks = schedule.fixed_chunks().map_or_else(|| chunks.to_vec(), |own| vec![own]);
            chunks.into_iter().map(move |chunks| Self { schedule, chunks, longest: None })
        };
        schedules.iter().flat_map(of).collect()
    }

    /// The pipelines that a shape may have; none where it has no stages.
    pub(super) fn on(shape: &Shape, request: &Request) -> Vec<Option<Self>> {
        if shape.stages == 1 {
            return vec![None];
        }
        let all = Self::all(&request.schedules, &request.chunks);
        all.into_iter().map(Some).collect()
    }

    /// Whether so many microbatches keep `stages` stages busy, and are allowed.
    pub(super) fn takes(self, microbatches: u64, stages: u64) -> bool {
        let is_from_both_ends = matches!(self.schedule, Schedule::DualPipe | Schedule::DualPipeV);
        let least = if is_from_both_ends { 2 * stages } else { stages };
        let is_whole = self.schedule.fixed_chunks().is_some()
            || self.chunks == 1
            || microbatches.is_multiple_of(stages);
        microbatches >= least && is_whole
    }

    /// Whether the option `chunks` is to be written.
    pub(super) fn names_chunks(self) -> bool {
        self.chunks > 1 && self.schedule.fixed_chunks().is_none()
    }

    /// `1f1b`, `1f1b x2` with two chunks on a stage, or `1f1b <=9` with fewer layers first.
    pub(super) fn in_words(self) -> String {
        let chunks = if self.names_chunks() { format!(" x{}", self.chunks) } else { String::new() };
        let longest = self.longest.map_or_else(String::new, |most| format!(" <={most}"));
        format!("{}{chunks}{longest}", self.schedule.name())
    }
}

/// A point of the space.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) shape: Shape,
    /// Microbatches of the gradient, or of the pipeline.
    pub(super) microbatches: Option<u64>,
    pub(super) recompute: Recompute,
    /// The pipeline, on shapes with stages.
    pub(super) staging: Option<Staging>,
    /// The size of the batch, where it is not the program's.
    pub(super) batch: Option<u64>,
    /// The dtypes of products with weights.
    pub(super) dtypes: Dtypes,
}

impl Candidate {
    /// The program on one device.
    pub(super) fn alone(named_axes: &[String], recompute: Recompute) -> Self {
        let shape = Shape::of_one_device(named_axes);
        let dtypes = Dtypes::Written;
        Self { shape, microbatches: None, recompute, staging: None, batch: None, dtypes }
    }

    /// The same with fewer layers on stages that keep more microbatches, for every length of the
    /// longest stage with which they keep less; none where stages keep equally many.
    pub(super) fn with_fewer_first(&self, layers: Option<u64>) -> Vec<Self> {
        let (Some(layers), Some(staging), Some(microbatches)) =
            (layers, self.staging, self.microbatches)
        else {
            return Vec::new();
        };
        if staging.schedule != Schedule::OneForwardOneBackward || staging.chunks > 1 {
            return Vec::new();
        }
        let even = Stages::spread(staging.schedule, self.shape.stages, 1, layers);
        let longest = stage_layers::lengths(even.layers(), microbatches).into_iter();
        let with = |longest| Staging { longest: Some(longest), ..staging };
        longest.map(|longest| Self { staging: Some(with(longest)), ..self.clone() }).collect()
    }

    /// What its time is divided by, to compare it with others: the batch, where that differs.
    pub(super) fn elements(&self) -> f64 {
        self.batch.map_or(1.0, |batch| batch as f64)
    }
}
