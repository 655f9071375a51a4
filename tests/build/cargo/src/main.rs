//! Uses plans in a program: sizes as constants, a budget checked by the compiler, the plan as a
//! table.

/// The plans of `programs/`.
mod plans {
    include!(concat!(env!("OUT_DIR"), "/shardwise.rs"));
}

use plans::{mlp, serving::decode};

/// A quarter of the chip is for something else.
const _: () = assert!(mlp::PEAK_BYTES < 72_000_000_000);

fn main() {
    let local_batch = mlp::dims::B / mlp::axes::X;
    let (devices, rows, ms) = (mlp::DEVICES, mlp::dims::B, mlp::SERIAL_S * 1e3);
    println!("mlp: {devices} devices, {local_batch} of {rows} rows each, {ms:.2} ms");
    for step in mlp::STEPS.iter().filter(|step| !step.axes.is_empty()) {
        println!("  {} over {} ({} bytes)", step.kind, step.axes.join(","), step.bytes);
    }
    let is_split = |tensor: &&plans::Tensor| {
        tensor.role == plans::Role::Param && tensor.dims.iter().any(|dim| !dim.axes.is_empty())
    };
    let (us, weights) = (decode::SERIAL_S * 1e6, decode::TENSORS.iter().filter(is_split).count());
    println!("decode: {us:.1} us on {}, {weights} weights split", decode::HARDWARE);
}
