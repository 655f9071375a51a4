//! Words the reasons why updates cannot be written out.

use shardwise_ir::Diag;
use shardwise_ir::codes::optimizer as codes;
use shardwise_ir::program::Program;
use shardwise_passes::OptimizerFault;

/// Why parameters of `program` cannot be updated.
pub(super) fn describe(program: &Program, fault: &OptimizerFault) -> Diag {
    let span = program.optimizer.as_ref().map_or_else(Default::default, |optimizer| optimizer.span);
    match *fault {
        OptimizerFault::Nothing => {
            let diag = Diag::error(
                codes::MISPLACED,
                "no parameter has a gradient, so there is nothing to update",
                span,
                "updates nothing",
            );
            diag.help("differentiate what depends on a `param`, or leave the optimizer out")
        }
        OptimizerFault::NameTaken(of, by) => {
            let (of, by) = (&program.values[of], &program.values[by]);
            let message = format!(
                "the optimizer's state of `{}` is called `{}`, which is taken",
                of.name, by.name
            );
            let diag = Diag::error(codes::NAME_TAKEN, message, by.span, "has this name")
                .and(span, "state asked for here");
            diag.help(
                "give it another name; a `state` of this name with the parameter's \
                dimensions would be the optimizer's",
            )
        }
    }
}
