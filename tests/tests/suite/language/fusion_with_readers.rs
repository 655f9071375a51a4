//! Operations that run in the kernel of what reads them rather than in that of what they read.

use shardwise::{Options, Planned};
use shardwise_tests::planning::planned;

fn plan(source: &str) -> Planned {
    planned(source, &Options { memory: Some(f64::INFINITY), ..Options::default() })
}

/// The square belongs to the sum, which reads the product anyway: nothing is written for it.
#[test]
fn a_norm_written_out_costs_what_the_norm_does() {
    let head = "hardware h100\nmesh X=1\ndim B=4096, D=2048, F=4096\ninput x[B, D]\n\
        param w[D, F]\nv = x *D w\n";
    let normed = |norm: &str| plan(&format!("{head}y = {norm}\noutput y[B, F]\n")).report;
    let (written_out, one) = (normed("v * rsqrt(sum_F(v * v))"), normed("rmsnorm_F(v)"));
    assert!((written_out.serial_s / one.serial_s - 1.0).abs() < 0.001);
    assert!((written_out.memory.peak_bytes / one.memory.peak_bytes - 1.0).abs() < 0.001);
}

/// What is picked by a mask is picked where it is summed, and the mask is made there.
#[test]
fn a_mask_goes_with_the_only_one_that_reads_it() {
    let source = "hardware h100\nmesh X=1\ndim B=8192, V=32768, D=1024\n\
        input x[B, D], t: int32[B]\nparam W[D, V]\nz = x *D W\nlse = logsumexp_V(z)\n\
        gold = sum_V(select(t == position_V(z), z, 0.0))\nloss = sum_B(lse - gold)\n\
        backward from loss\noutput loss[]\n";
    let picked = plan(source).report.serial_s;
    let looked_up = source.replace("sum_V(select(t == position_V(z), z, 0.0))", "take_V(z, t)");
    assert!(picked < plan(&looked_up).report.serial_s, "a mask needs no scattered gradient");
}

/// A plan names its kernels, which are those that it has as a program.
#[test]
fn plans_with_moved_operations_are_plans() {
    let source = "hardware h100\nmesh X=2\ndim B=64, D=64, F=64\ninput x[B_X, D]\nparam w[D, F]\n\
        v = x *D w\nm = v == 0.5\ns = sum_F(select(m, v, 1.0) * v)\ny = v * s\n\
        output y[B_X, F], v[B_X, F]\n";
    let first = plan(source);
    let again = plan(&first.to_string());
    assert_eq!(first.report.serial_s.to_bits(), again.report.serial_s.to_bits(), "{first}");
}

/// Whether by a cast or by the dtype of a result: a product reads the narrow copy.
#[test]
fn results_in_fewer_bits_are_written_before_a_product_reads_them() {
    let head = "hardware h100\nmesh X=1\ndim B=16, D=1024, F=1024\ninput x[B, D]\n\
        param w: f32[D, F]\n";
    let seconds = |body: &str| plan(&format!("{head}{body}\noutput y[B, F]\n")).report.serial_s;
    let cast = seconds("y = x *D cast<bf16>(w)");
    let declared = seconds("wb: bf16[D, F] = w\ny = x *D wb");
    assert_eq!(cast.to_bits(), declared.to_bits());
}
