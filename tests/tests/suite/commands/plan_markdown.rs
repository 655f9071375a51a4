//! `plan --format md`: the comment has the totals, the collectives, the findings and the plan.

use shardwise::export::FORMATS;
use shardwise::{Options, plan};
use shardwise_tests::snapshot::snapshot;

const PROGRAM: &str = "hardware tpu-v5p
mesh X=4
dim I=8192, J=8192, K=8192, Z=4
input A[I, J_X], B[J_X, K]
C = A *J B
output C[I, K_X]
";

fn markdown(program: &str) -> String {
    let planned = plan("gemm", program, &Options::default()).expect("it has a plan");
    let format = FORMATS.iter().find(|format| format.name == "md").expect("there is the format");
    (format.write)(&planned).expect("it is written")
}

#[test]
fn a_comment_looks_like_this() {
    snapshot("formats", "plan-md", &markdown(PROGRAM));
}

#[test]
fn a_plan_without_communication_says_so() {
    let text = markdown("hardware tpu-v5p\nmesh X=4\ndim I=8\ninput A[I_X]\noutput A[I_X]\n");
    assert!(text.contains("\nNothing is communicated.\n\nNo findings.\n"), "{text}");
}
