//! A strategy as degrees of parallelism: one number for each kind, as frameworks have them.

use std::fmt::Write as _;

use shardwise_grammar::ast::{Role as Declared, Statement};
use shardwise_grammar::print;
use shardwise_grammar::span::Name;
use shardwise_ir::products::Products;
use shardwise_ir::stages::Schedule;

use crate::planned::parallelism::Role;
use crate::tune::{ActingAxis, Recompute, Staging, Strategy, Tuned};

/// In how many ways something is split.
#[derive(Clone, Copy)]
pub(super) struct Ways {
    pub(super) all: u64,
    /// Of these, between nodes or slices.
    pub(super) between: u64,
}

impl Ways {
    const ONE: Self = Self { all: 1, between: 1 };

    /// Inside of a node or slice.
    pub(super) fn inside(self) -> u64 {
        self.all / self.between
    }
}

/// The degrees of a strategy as frameworks count them.
pub(super) struct Degrees {
    pub(super) pipeline: Ways,
    pub(super) tensor: Ways,
    pub(super) expert: Ways,
    pub(super) context: Ways,
    /// Copies of the model with batches of their own, on axes that do not shard parameters.
    pub(super) replicated: Ways,
    /// Devices along the axes of data that shard parameters.
    pub(super) sharded: Ways,
    /// Whether parameters are sharded along axes of data, positions or experts, and gathered for
    /// use.
    pub(super) gathers: bool,
    /// Whether optimizer states are split over copies of the model.
    pub(super) splits_states: bool,
    /// Whether an axis of tensors also splits positions.
    pub(super) sequence: bool,
    pub(super) microbatches: u64,
    pub(super) recompute: &'static str,
    pub(super) dtypes: &'static str,
    /// How many times their share of tokens experts have slots for, where tokens are routed.
    pub(super) capacity_factor: Option<f64>,
    /// The pipeline, where there is one.
    pub(super) staging: Option<Staging>,
    /// The layers of all its stages.
    pub(super) layers: u64,
    pub(super) batch: Option<u64>,
    pub(super) precision: Precision,
    /// What no flag expresses.
    pub(super) lacks: Vec<String>,
}

impl Degrees {
    pub(super) fn of(tuned: &Tuned) -> Result<Self, String> {
        let strategy = tuned.strategies.first().ok_or("there is no strategy")?;
        let Some(microbatches) = strategy.microbatches else {
            return Err("flags of training need a program with `backward` whose microbatches are \
                not pinned; write --format text"
                .to_owned());
        };
        let mut degrees = Self {
            pipeline: Ways::ONE,
            tensor: Ways::ONE,
            expert: Ways::ONE,
            context: Ways::ONE,
            replicated: Ways::ONE,
            sharded: Ways::ONE,
            gathers: false,
            splits_states: false,
            sequence: false,
            microbatches,
            recompute: recomputed(strategy, &tuned.winner),
            dtypes: strategy.dtypes,
            capacity_factor: strategy.capacity_factor,
            staging: strategy.pipeline,
            layers: strategy.staged_layers.unwrap_or(0),
            batch: tuned.batch,
            precision: Precision::of(&tuned.winner),
            lacks: Vec::new(),
        };
        strategy.axes_roles.iter().for_each(|axis| degrees.add(axis));
        degrees.lacks.extend(mixed(strategy));
        Ok(degrees)
    }

    fn add(&mut self, axis: &ActingAxis) {
        let acts = |role: Role| axis.roles.contains(&role.name());
        let degree = match axis.main {
            Some(Role::Pipeline) => &mut self.pipeline,
            Some(Role::Tensor) => {
                self.sequence |= acts(Role::Sequence);
                &mut self.tensor
            }
            Some(Role::Expert) => &mut self.expert,
            Some(Role::Sequence) => &mut self.context,
            Some(Role::Data | Role::FullySharded) if acts(Role::FullySharded) => &mut self.sharded,
            _ => {
                self.splits_states |= axis.splits_states;
                &mut self.replicated
            }
        };
        degree.all *= axis.size;
        degree.between *= axis.between;
        let is_of_tensors = matches!(axis.main, Some(Role::Pipeline | Role::Tensor));
        self.gathers |= !is_of_tensors && acts(Role::FullySharded);
    }

    /// Devices with batches of their own: experts are spread over those of data.
    fn data(&self) -> u64 {
        self.replicated.all * self.sharded.all * self.expert.all
    }

    /// Whether this is what is computed again.
    pub(super) fn recomputes(&self, what: Recompute) -> bool {
        self.recompute == what.name()
    }

    /// Whether every layer is computed again.
    pub(super) fn recomputes_layers(&self) -> bool {
        self.recomputes(Recompute::Layers) || self.recomputes(Recompute::Offload)
    }

    /// A remark for frameworks that cannot send to the host.
    pub(super) fn lacks_offload(&mut self) {
        if self.recomputes(Recompute::Offload) {
            self.lacks.push("inputs of layers wait in the memory of the host".to_owned());
        }
    }

    /// Whether products read this dtype.
    pub(super) fn multiplies(&self, products: Products) -> bool {
        self.dtypes == products.name()
    }

    /// A remark for frameworks without a flag for products in these dtypes.
    pub(super) fn lacks_products(&mut self, dtypes: &[Products]) {
        if dtypes.iter().any(|&dtype| self.multiplies(dtype)) {
            self.lacks.push(format!("products of layers in {}", self.dtypes));
        }
    }

    /// A remark for frameworks that update parameters in 32 bits.
    pub(super) fn lacks_narrow_updates(&mut self, keeps: &str) {
        if self.precision.updates_narrow {
            self.lacks.push(format!("parameters updated in bf16: {keeps}, 4 bytes each"));
        }
    }

    /// Whether something is computed again.
    pub(super) fn recomputes_any(&self) -> bool {
        !self.recomputes(Recompute::Nothing)
    }

    /// The schedule, if it is one of these with as many chunks as it takes; else a remark.
    pub(super) fn schedule(&mut self, known: &[(Schedule, &'static str)]) -> Option<&'static str> {
        let staging = self.staging?;
        let found = known.iter().find(|(schedule, _)| *schedule == staging.schedule);
        if found.is_none() {
            self.lacks.push(format!("the schedule {}", staging.in_words()));
        } else if staging.longest.is_some() {
            self.lacks.push("the layers of each stage".to_owned());
        }
        found.map(|(_, name)| *name)
    }

    /// Runs of layers, one after another, on all stages.
    fn runs(&self) -> u64 {
        self.pipeline.all * self.staging.map_or(1, |staging| staging.chunks)
    }

    /// The layers of a run, where all have equally many; else a remark.
    pub(super) fn layers_of_run(&mut self) -> Option<u64> {
        let (layers, runs) = (self.layers, self.runs());
        let is_equal = layers.is_multiple_of(runs);
        if !is_equal {
            self.lacks.push(format!("{layers} layers are not equally many in {runs} runs of them"));
        }
        is_equal.then(|| layers / runs)
    }

    /// Samples of a microbatch on one of them, where they are whole.
    pub(super) fn micro_batch(&self) -> Option<u64> {
        let parts = self.data() * self.microbatches;
        self.batch.filter(|batch| batch.is_multiple_of(parts)).map(|batch| batch / parts)
    }

    /// The remarks below the flags.
    pub(super) fn remarks(&self, more: &[&str]) -> String {
        let mut out = String::new();
        for lack in self.lacks.iter().map(String::as_str).chain(more.iter().copied()) {
            let _ = writeln!(out, "# not expressed: {lack}");
        }
        if self.batch.is_some() && self.micro_batch().is_none() {
            out +=
                "# not expressed: the batch is not a whole number of samples for each microbatch\n";
        }
        out
    }
}

/// What is computed again, as `--recompute` names it: also where the program's own `checkpoint`
/// says so, if every block of it has the same.
fn recomputed(strategy: &Strategy, program: &str) -> &'static str {
    if strategy.recompute != Recompute::AsWritten.name() {
        return strategy.recompute;
    }
    let (blocks, written) = checkpoints(program);
    let is_of_all = |of: &Recompute| {
        of.statement().is_some_and(|statement| {
            let (_, of_block) = checkpoints(statement);
            written == vec![of_block; blocks].concat()
        })
    };
    let known = Recompute::CHOICES.into_iter().find(is_of_all).filter(|_| !written.is_empty());
    known.unwrap_or(Recompute::AsWritten).name()
}

/// The number of a program's blocks, and its `checkpoint` statements in order.
fn checkpoints(program: &str) -> (usize, Vec<String>) {
    let statements = shardwise_grammar::parse(program).0.statements;
    let statements = || statements.iter().map(|statement| &statement.node);
    let blocks = statements().filter(|statement| matches!(statement, Statement::Repeat(_)));
    let checkpoints = statements()
        .filter(|statement| matches!(statement, Statement::Checkpoint { .. }))
        .map(|statement| print::statement(statement, program));
    (blocks.count(), checkpoints.collect())
}

/// What a program says of the precision of its training.
pub(super) struct Precision {
    /// Whether gradients of parameters are in 32 bits, as they are added up.
    pub(super) has_wide_gradients: bool,
    /// Whether parameters are updated in 16 bits: there is an optimizer, and neither they nor
    /// master copies are in 32 bits.
    pub(super) updates_narrow: bool,
}

impl Precision {
    fn of(program: &str) -> Self {
        let is_wide = |dtype: Option<&Name>| dtype.is_some_and(|dtype| dtype.node == "f32");
        let (mut gradients, mut master, mut optimizes, mut params) = (None, None, false, true);
        for statement in shardwise_grammar::parse(program).0.statements {
            match statement.node {
                Statement::Backward(backward) => gradients = backward.gradients,
                Statement::Optimizer(optimizer) => {
                    optimizes = true;
                    let mut settings = optimizer.settings.into_iter();
                    master = settings.rfind(|it| it.name.node == "master");
                }
                Statement::Declare(Declared::Param, declared) => {
                    params &= declared.iter().all(|param| is_wide(param.dtype.as_ref()));
                }
                _ => {}
            }
        }
        let has_master = is_wide(master.as_ref().map(|master| &master.value));
        Self {
            has_wide_gradients: is_wide(gradients.as_ref()) || gradients.is_none() && params,
            updates_narrow: optimizes && !has_master && !params,
        }
    }
}

/// Roles beside the one that an axis has in frameworks.
fn mixed(strategy: &Strategy) -> impl Iterator<Item = String> {
    strategy.axes_roles.iter().filter_map(|axis| {
        let acts = |role: Role| axis.roles.contains(&role.name());
        let ActingAxis { axis: name, size, main, .. } = axis;
        let is_main = |role: Role| *main == Some(role);
        let gathers = acts(Role::FullySharded) || acts(Role::Data);
        if is_main(Role::Tensor) && gathers {
            Some(format!("{name}={size} counts as TP, though it gathers some weights for use"))
        } else if acts(Role::Tensor) && !is_main(Role::Tensor) {
            let counts_as = main.map_or("", Role::name);
            Some(format!(
                "{name}={size} counts as {counts_as}, though it splits some weights for use"
            ))
        } else if acts(Role::Sequence) && acts(Role::Data) {
            Some(format!("{name}={size} splits positions of some values and the batch of others"))
        } else {
            None
        }
    })
}
