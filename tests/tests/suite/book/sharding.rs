//! The numbers of the book's chapter on sharding that concern programs, each as a test named by its
//! id.
//!
//! The expected values stand in `tests/facts/sharding.json`, recomputed from the book's formulas at
//! full precision. Facts that are only a formula (no value) are held here as the ratio that the
//! formula implies.

#![expect(clippy::float_cmp, reason = "byte counts and ratios of powers of two are exact")]

use serde_json::Value;
use shardwise::json::PlanJson;
use shardwise::{Options, Refinement};
use shardwise_tests::facts::{numbers, record, value_holds};
use shardwise_tests::planning::{book, refused, reshard, seconds, textbook};
use shardwise_tests::{fact, read};

fn plan(source: &str) -> PlanJson {
    textbook(source).json()
}

fn book_plan(name: &str) -> PlanJson {
    book(name).json()
}

/// Bytes a device holds of a parameter so declared.
fn resident(mesh: &str, dims: &str, declaration: &str) -> f64 {
    let source = format!("hardware tpu-v5p\nmesh {mesh}\ndim {dims}\nparam {declaration}\n");
    plan(&source).memory.resident_bytes as f64
}

const RING4: &str = "hardware tpu-v5p\nmesh X=4 ring\ndim I=4096, J=4096";
const TORUS: &str = "hardware tpu-v4p\nmesh X=4, Y=4, Z=4\ndim B=1024, D=4096";

/// `V/W` of the arrays above: 4096x4096 in bf16 over 1.8e11.
const RING4_UNIT: f64 = 4096.0 * 4096.0 * 2.0 / 1.8e11;

fact!(s3_loc1, "S3-LOC1", |id| {
    let shape = numbers(id);
    assert_eq!(resident("X=2, Y=2", "I=4, J=128", "A: int8[I_X, J_Y]"), shape[0] * shape[1]);
});
fact!(s3_loc2, "S3-LOC2", |id| value_holds(
    id,
    resident("X=2, Y=2", "I=64, J=64", "A[I_X, J_Y]")
        / resident("X=2, Y=2", "I=64, J=64", "A[I, J]")
));
fact!(s3_loc3, "S3-LOC3", |id| {
    let shape = numbers(id);
    assert_eq!(
        resident("X=8, Y=2", "I=1024, J=4096", "A: fp32[I_XY, J]"),
        4.0 * shape[0] * shape[1]
    );
});
fact!(s3_pq0_bytes, "S3-PQ0-BYTES", |id| value_holds(
    id,
    resident("X=8, Y=2", "I=1024, J=4096", "A: fp32[I_XY, J]")
));
fact!(s3_pq1_shape, "S3-PQ1-SHAPE", |id| {
    let shape = numbers(id);
    assert_eq!(resident("X=2, Y=8, Z=2", "I=128, J=2048", "A: int8[I_XY, J]"), shape[0] * shape[1]);
});
fact!(s3_pq1_dev, "S3-PQ1-DEV", |id| value_holds(
    id,
    resident("X=2, Y=8, Z=2", "I=128, J=2048", "A: int8[I_XY, J]")
));
fact!(s3_pq1_tot, "S3-PQ1-TOT", |id| value_holds(
    id,
    32.0 * resident("X=2, Y=8, Z=2", "I=128, J=2048", "A: int8[I_XY, J]")
));
fact!(s3_rep_full, "S3-REP-FULL", |id| value_holds(
    id,
    4.0 * resident("X=2, Y=2", "I=64, J=64", "A[I, J]") / (64.0 * 64.0 * 2.0)
));
fact!(s3_rep_part, "S3-REP-PART", |id| value_holds(
    id,
    4.0 * resident("X=2, Y=2", "I=64, J=64", "A[I_X, J]") / (64.0 * 64.0 * 2.0)
));
fact!(s3_xy_ways, "S3-XY-WAYS", |id| value_holds(
    id,
    64.0 * 64.0 * 2.0 / resident("X=4, Y=8", "I=64, J=64", "A[I_XY, J]")
));
fact!(s3_code_a, "S3-CODE-A", |id| {
    let shape = numbers(id);
    assert_eq!(resident("X=4, Y=2", "B=8, D=2048", "A[B_X, D_Y]"), 2.0 * shape[0] * shape[1]);
});
fact!(s3_code_b, "S3-CODE-B", |id| {
    let shape = numbers(id);
    assert_eq!(resident("X=4, Y=2", "D=2048, F=8192", "W[D, F_Y]"), 2.0 * shape[0] * shape[1]);
});
fact!(s3_pq2_shard, "S3-PQ2-SHARD", |id| value_holds(
    id,
    resident("X=8, Y=4", "E=2048, F=8192", "A[E_Y, F]")
));
fact!(s3_pq2_total, "S3-PQ2-TOTAL", |id| value_holds(
    id,
    resident("X=8, Y=4", "E=2048, F=8192", "A[E, F]")
));
fact!(s3_pq2b_shard, "S3-PQ2B-SHARD", |id| value_holds(
    id,
    resident("X=8, Y=4", "E=256, F=256", "A[E_Y, F]")
));
fact!(s3_q1, "S3-Q1", |id| {
    let dims = "I=64, J=64, K=64";
    value_holds(
        id,
        64.0 * resident("X=4, Y=8, Z=2", dims, "A[I_X, J, K]") / (64.0 * 64.0 * 64.0 * 2.0),
    );
});
fact!(s3_q3_bytes, "S3-Q3-BYTES", |id| {
    assert_eq!(numbers(id), [resident("X=4", "B=128", "A[B]"), resident("X=4", "B=128", "A[B_X]")]);
});
fact!(s3_q7_w, "S3-Q7-W", |id| value_holds(id, resident("X=2", "D=8192, F=32768", "W[D, F]")));
fact!(s3_q7_in, "S3-Q7-IN", |id| value_holds(id, resident("X=2", "B=128, D=8192", "In[B, D]")));
fact!(s3_q7_shard4, "S3-Q7-SHARD4", |id| value_holds(
    id,
    book_plan("p3-q7").memory.resident_bytes as f64
));
fact!(s3_q7_fsdp, "S3-Q7-FSDP", |id| value_holds(
    id,
    book_plan("p3-q7-fsdp").steps[0].local_bytes as f64
));

fact!(s3_elem, "S3-ELEM", |id| {
    let plan =
        plan("hardware tpu-v5p\nmesh X=4\ndim I=64\ninput A[I_X], B[I_X]\noutput C[I_X] = A + B\n");
    assert_eq!(plan.cost.comm_s, record(id)["value"].as_f64().unwrap_or(1.0));
});
fact!(s3_pq2_ring, "S3-PQ2-RING", |id| value_holds(
    id,
    seconds("hardware tpu-v5e\nmesh Y=4 ring\ndim E=2048, F=8192", "[E_Y, F]", "[E, F]")
));
fact!(s3_pq2_line, "S3-PQ2-LINE", |id| value_holds(
    id,
    seconds("hardware tpu-v5e\nmesh X=8, Y=4\ndim E=2048, F=8192", "[E_Y, F]", "[E, F]")
));
fact!(s3_pq2b_t, "S3-PQ2B-T", |id| value_holds(
    id,
    seconds("hardware tpu-v5e\nmesh X=8, Y=4\ndim E=256, F=256", "[E_Y, F]", "[E, F]")
));
fact!(s3_q2a, "S3-Q2A", |id| value_holds(id, book_plan("p3-q2a").cost.comm_s));
fact!(s3_q2b, "S3-Q2B", |id| value_holds(id, book_plan("p3-q2b").cost.comm_s));
fact!(s3_q2c, "S3-Q2C", |id| value_holds(id, book_plan("p3-q2c").cost.comm_s));
fact!(s3_q3, "S3-Q3", |id| value_holds(id, book_plan("p3-q3").cost.comm_s));
fact!(s3_tlat, "S3-TLAT", |id| value_holds(id, book_plan("p3-q3").cost.comm_s / 2.0));
fact!(s3_q5_t1, "S3-Q5-T1", |id| value_holds(
    id,
    book_plan("p3-q5-1").cost.comm_s / (8192.0 * 8192.0)
));
fact!(s3_q5_t3, "S3-Q5-T3", |id| value_holds(
    id,
    book_plan("p3-q5-3").cost.comm_s / book_plan("p3-q5-1").cost.comm_s
));
fact!(s3_q5_f4, "S3-Q5-F4", |id| value_holds(
    id,
    book_plan("p3-q5-4").steps[0].flops / book_plan("p3-q5-1").steps[0].flops
));
fact!(s3_q7_math, "S3-Q7-MATH", |id| value_holds(
    id,
    book_plan("p3-q7").steps.iter().map(|step| step.flops).sum::<f64>() / 1.97e14
));
fact!(s3_q7_hbm, "S3-Q7-HBM", |id| value_holds(
    id,
    book_plan("p3-q7").memory.resident_bytes as f64 / 8.1e11
));
fact!(s3_q7_comm, "S3-Q7-COMM", |id| {
    let source = read("tests/programs/book/p3-q7.shard").replace("X=2, Y=2", "X=2 ring, Y=2 ring");
    value_holds(id, plan(&source).cost.comm_s);
});
fact!(s3_q7_comm_x, "S3-Q7-COMM-X", |id| value_holds(id, book_plan("p3-q7").cost.comm_s));
fact!(s3_q9_ratio, "S3-Q9-RATIO", |_| {
    // Gather first moves N·M, multiply then scatter N·K: with M = 2K the first takes twice as
    // long.
    let head = "hardware tpu-v5p\nmesh X=4\ndim N=8192, M=8192, K=4096";
    let gather = seconds(head, "[N, M_X]", "[N, M]");
    let scatter = seconds(head, "[N, K] {U_X}", "[N, K_X]");
    assert!((gather / scatter - 2.0).abs() < 1e-9);
});
fact!(s3_tag, "S3-TAG", |_| assert!(
    (seconds(RING4, "[I_X, J]", "[I, J]") / RING4_UNIT - 1.0).abs() < 1e-12
));
fact!(s3_trs, "S3-TRS", |_| assert!(
    (seconds(RING4, "[I, J] {U_X}", "[I_X, J]") / RING4_UNIT - 1.0).abs() < 1e-12
));
fact!(s3_tar, "S3-TAR", |_| assert!(
    (seconds(RING4, "[I, J] {U_X}", "[I, J]") / RING4_UNIT - 2.0).abs() < 1e-12
));
fact!(s3_ar_ratio, "S3-AR-RATIO", |id| value_holds(
    id,
    seconds(RING4, "[I, J] {U_X}", "[I, J]") / seconds(RING4, "[I, J] {U_X}", "[I_X, J]")
));
fact!(s3_tmulti, "S3-TMULTI", |_| {
    let (one, two) = (seconds(TORUS, "[B_X, D]", "[B, D]"), seconds(TORUS, "[B_X, D_Y]", "[B, D]"));
    assert!((one / two - 2.0).abs() < 1e-9, "two axes have twice the bandwidth");
});
fact!(s3_table_ag, "S3-TABLE-AG", |id| value_holds(
    id,
    seconds(RING4, "[I_X, J]", "[I, J]") / RING4_UNIT
));
fact!(s3_table_rs, "S3-TABLE-RS", |id| value_holds(
    id,
    seconds(RING4, "[I, J] {U_X}", "[I, J_X]") / RING4_UNIT
));
fact!(s3_table_ar, "S3-TABLE-AR", |id| value_holds(
    id,
    seconds(RING4, "[I, J] {U_X}", "[I, J]") / RING4_UNIT
));
fact!(s3_table_a2a, "S3-TABLE-A2A", |id| value_holds(
    id,
    seconds(RING4, "[I_X, J]", "[I, J_X]") / RING4_UNIT
));
fact!(s3_a2a_cost, "S3-A2A-COST", |id| value_holds(
    id,
    seconds(RING4, "[I_X, J]", "[I, J_X]") / seconds(RING4, "[I_X, J]", "[I, J]")
));
fact!(s3_a2a_ar, "S3-A2A-AR", |id| value_holds(
    id,
    seconds(RING4, "[I_X, J]", "[I, J_X]") / seconds(RING4, "[I, J] {U_X}", "[I, J]")
));
fact!(s3_a2a_nd_4x4, "S3-A2A-ND-4x4", |id| {
    let head = "hardware tpu-v5p\nmesh X=4, Y=4\ndim I=4096, J=4096";
    value_holds(id, seconds(head, "[I_XY, J]", "[I, J_XY]") / RING4_UNIT);
});
fact!(s3_a2a_nd_8x4, "S3-A2A-ND-8x4", |id| {
    let head = "hardware tpu-v5p\nmesh X=8, Y=4\ndim I=4096, J=4096";
    value_holds(id, seconds(head, "[I_XY, J]", "[I, J_XY]") / RING4_UNIT);
});
fact!(s3_x_ring, "S3-X-RING", |id| value_holds(
    id,
    reshard(RING4, "[I_X, J]", "[I, J]", Refinement::Exact).time_s / RING4_UNIT
));
fact!(s3_x_line, "S3-X-LINE", |id| value_holds(
    id,
    seconds(&RING4.replace("ring", "line"), "[I_X, J]", "[I, J]") / RING4_UNIT
));
fact!(s3_uni_factor, "S3-UNI-FACTOR", |id| value_holds(
    id,
    seconds(&RING4.replace("ring", "line"), "[I_X, J]", "[I, J]") / (2.0 * RING4_UNIT)
));
fact!(s3_x_line_multi, "S3-X-LINE-MULTI", |id| {
    let head = "hardware tpu-v5p\nmesh X=2 line, Y=2 line\ndim I=4096, J=4096";
    value_holds(id, seconds(head, "[I_XY, J]", "[I, J]") / (2.0 * RING4_UNIT));
});
fact!(s3_x_a2a_line, "S3-X-A2A-LINE", |id| value_holds(
    id,
    seconds(&RING4.replace("ring", "line"), "[I_X, J]", "[I, J_X]") / RING4_UNIT
));

fact!(s3_order, "S3-ORDER", |_| {
    let head = "hardware tpu-v5p\nmesh X=4, Y=4\ndim I=64, J=64";
    assert_eq!(
        reshard(head, "[I_XY, J]", "[I_YX, J]", Refinement::Book).kind,
        "permute",
        "XY and YX are different layouts"
    );
});
fact!(s3_c1a, "S3-C1A", |id| gives("p3-c1a", record(id)));
fact!(s3_c1b, "S3-C1B", |id| gives("p3-c1b", record(id)));
fact!(s3_c1c, "S3-C1C", |id| gives("p3-c1c", record(id)));
fact!(s3_c1d, "S3-C1D", |id| gives("p3-c1d", record(id)));
fact!(s3_c1_free, "S3-C1-FREE", |_| assert_eq!(book_plan("p3-c1e").cost.comm_s, 0.0));
fact!(s3_c2, "S3-C2", |_| assert!(book_plan("p3-c2").steps[0].text.contains("AllGather_X(A")));
fact!(s3_c2_twoax, "S3-C2-TWOAX", |_| assert!(
    book_plan("p3-c2-twoax").steps[0].text.contains("AllGather_X(A")
));
fact!(s3_ag_all, "S3-AG-ALL", |id| gives("p3-ag-all", record(id)));
fact!(s3_ag_part, "S3-AG-PART", |_| {
    refused(&read("tests/programs/errors/p3-ag-part.shard"), "SW209");
    assert_eq!(book_plan("p3-ag-part").steps.len(), 1);
});
fact!(s3_logical_axis, "S3-LOGICAL-AXIS", |id| {
    let checked =
        shardwise::check("fact", &read("tests/programs/book/p5-mixed.shard"), &Options::default());
    let mesh = checked.program.expect("the program is sound").into_program().mesh;
    assert_eq!(
        numbers(id),
        mesh.axes.iter().map(|axis| axis.physical.len() as f64).collect::<Vec<_>>()
    );
});
fact!(s3_c3, "S3-C3", |id| {
    let plan = book_plan("p3-c3");
    assert!(plan.steps[0].text.starts_with(record(id)["value"].as_str().unwrap_or("?")));
});
fact!(s3_c4, "S3-C4", |_| {
    gives("p3-c4", &serde_json::json!({"value": "C[I, K_X]"}));
    gives("p3-c4b", &serde_json::json!({"value": "C[I_X, K]"}));
});
fact!(s3_a2a_sem, "S3-A2A-SEM", |id| gives("p3-a2a", record(id)));
fact!(s3_bad_twice, "S3-BAD-TWICE", |_| refused(
    &read("tests/programs/errors/p3-bad-twice.shard"),
    "SW201"
));
fact!(s3_bad_uaxis, "S3-BAD-UAXIS", |_| refused(
    "hardware tpu-v5p\nmesh X=4\ndim I=8, J=8\ninput A[I_X, J] {U_X}\noutput A[I, J]\n",
    "SW201"
));
fact!(s3_ncag_bad, "S3-NCAG-BAD", |_| {
    let source = "plan\nhardware tpu-v5p\nmesh X=4\ndim I=8, J=8, K=8\ninput A[I, J_X], B[J, K]\n\
        C[I, K] = A[I, J_X] *J B[J, K]\noutput C[I, K]\n";
    refused(source, "SW205");
});
fact!(s3_c4_bad, "S3-C4-BAD", |_| refused(&read("tests/programs/errors/p3-c4.shard"), "SW201"));

/// Whether the last step gives the sharding that the fact names.
fn gives(name: &str, fact: &Value) {
    let plan = book_plan(name);
    let last = plan.steps.last().expect("the plan has steps");
    let wanted = fact["value"].as_str().unwrap_or("?");
    assert!(
        last.text.starts_with(&format!("{wanted} = ")),
        "{name}: {} against {wanted}",
        last.text
    );
}
