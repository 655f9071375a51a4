//! Whether two programs are the same except for spans and for estimates, which `==` would compare.

use crate::Span;
use crate::program::Program;

/// Whether two programs are the same, ignoring spans.
pub fn same(a: &Program, b: &Program) -> bool {
    without_spans(a) == without_spans(b)
}

fn without_spans(program: &Program) -> Program {
    let mut bare = program.clone();
    let nowhere = Span::default();
    bare.dims.iter_mut().for_each(|dim| dim.span = nowhere);
    bare.values.iter_mut().for_each(|value| value.span = nowhere);
    for op in &mut bare.ops {
        op.span = nowhere;
        op.operands.iter_mut().for_each(|operand| operand.span = nowhere);
    }
    bare.backward.iter_mut().for_each(|backward| backward.span = nowhere);
    bare.optimizer.iter_mut().for_each(|optimizer| optimizer.span = nowhere);
    for repeat in &mut bare.repeats {
        repeat.span = nowhere;
        repeat.named_values_mut().for_each(|named| named.span = nowhere);
        if let Some(pipeline) = &mut repeat.pipeline {
            pipeline.span = nowhere;
            pipeline.stages = pipeline.stages.clone().charged_as(None);
        }
    }
    bare.outputs.iter_mut().for_each(|output| output.span = nowhere);
    bare.asserts.iter_mut().for_each(|assert| assert.span = nowhere);
    bare
}
