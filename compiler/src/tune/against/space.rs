//! Whether a strategy written by hand is a point of the space, and if not, which of its choices no
//! candidate makes.
//!
//! Both are compared as resolved programs: `X=16 dcn` and `X=16 ib` are one network, and a mesh
//! that no word folds is the one that the machine implies. Shardings are not compared: those of a
//! candidate are the planner's to choose, from all on its mesh.

use shardwise_grammar::ast::Statement;
use shardwise_ir::blocks::Pipeline;
use shardwise_ir::dtype::DType;
use shardwise_ir::mesh::AxisKind;
use shardwise_ir::program::Program;
use shardwise_passes::dtypes_of_products;

use crate::display::units::counted;
use crate::driver::check;
use crate::options::Options;
use crate::tune::candidate::Candidate;
use crate::tune::template::Template;

/// The networks under an axis: how many devices of which kind.
type Networks = Vec<(u64, AxisKind)>;

/// What a program decides beside its shardings.
#[derive(PartialEq)]
struct Choices {
    /// The networks of each axis of more than one device, sorted.
    mesh: Vec<Networks>,
    /// Stages, schedule, and the layers of each chunk.
    pipeline: Option<(u64, &'static str, Vec<u64>)>,
    /// Microbatches, of the pipeline or of gradients.
    microbatches: u64,
    /// What is computed again or offloaded, as the statements have it.
    again: Vec<Again>,
    /// The dtypes that products with weights of layers read.
    dtypes: Vec<DType>,
}

/// `keep`, `only` or `offload`, and the names.
type Again = (Option<String>, Vec<String>);

/// Which choice of a program no candidate makes; none where it is one of them.
pub(super) fn outside(
    template: &Template<'_>,
    candidates: &[Candidate],
    options: &Options,
    (program, text): (&Program, &str),
) -> Option<String> {
    let own = Choices::of(program, text);
    let of = |candidate: &Candidate| {
        let text = template.text(candidate);
        let program = check(template.name, &text, options).program?;
        Some(Choices::of(&program, &text))
    };
    let mut left: Vec<Choices> = candidates.iter().filter_map(of).collect();
    for (is_equal, what) in own.tests() {
        left.retain(|other| is_equal(&own, other));
        if left.is_empty() {
            return Some(what);
        }
    }
    None
}

/// Whether two programs choose the same in some respect.
type Test = fn(&Choices, &Choices) -> bool;

impl Choices {
    fn of(program: &Program, text: &str) -> Self {
        let mut mesh: Vec<Networks> = program
            .mesh
            .declared()
            .filter(|(axis, _)| axis.size > 1)
            .map(|(axis, _)| {
                let parts = axis.physical.iter().filter(|part| part.size > 1);
                let mut parts: Networks = parts.map(|part| (part.size, part.kind)).collect();
                parts.sort_unstable();
                parts
            })
            .collect();
        mesh.sort_unstable();
        let blocks = || program.repeats.iter();
        let staged = blocks().find_map(|block| block.pipeline.as_ref());
        let split = blocks().find(|block| block.microbatches_of.is_some());
        let of_gradients = split.map_or(1, |block| block.count);
        Self {
            mesh,
            pipeline: staged.map(|of| shape(program, of)),
            microbatches: staged.map_or(of_gradients, |of| of.microbatches),
            again: again(text),
            dtypes: dtypes(program),
        }
    }

    /// What is compared, in turn, and the words for a choice that nothing equals.
    fn tests(&self) -> [(Test, String); 5] {
        let pipeline = self.pipeline.as_ref();
        let pipeline = pipeline.map_or("no pipeline".to_owned(), |(stages, schedule, layers)| {
            let chunks = layers.len() as u64 / stages;
            format!("{} of {}, {schedule}", counted(*stages, "stage"), counted(chunks, "chunk"))
        });
        let again = if self.again.is_empty() { "no `checkpoint`" } else { "its `checkpoint`" };
        [
            (|a, b| a.mesh == b.mesh, "its mesh".to_owned()),
            (|a, b| a.pipeline == b.pipeline, pipeline),
            (|a, b| a.microbatches == b.microbatches, counted(self.microbatches, "microbatch")),
            (|a, b| a.again == b.again, again.to_owned()),
            (|a, b| a.dtypes == b.dtypes, "the dtypes of its products".to_owned()),
        ]
    }
}

fn dtypes(program: &Program) -> Vec<DType> {
    let mut dtypes = dtypes_of_products(program);
    dtypes.sort_unstable();
    dtypes.dedup();
    dtypes
}

fn shape(program: &Program, of: &Pipeline) -> (u64, &'static str, Vec<u64>) {
    (program.mesh.axes[of.axis].size, of.schedule.name(), of.stages.layers().to_vec())
}

/// The statements that say what is computed again; plans and resolved programs have only what
/// follows from them.
fn again(text: &str) -> Vec<Again> {
    let statements = shardwise_grammar::parse(text).0.statements;
    let again = statements.into_iter().filter_map(|statement| match statement.node {
        Statement::Checkpoint { how, names } => {
            Some((how.map(|how| how.node), names.into_iter().map(|name| name.node).collect()))
        }
        _ => None,
    });
    again.collect()
}
