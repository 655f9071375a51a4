//! `measure_torch.py` on two processes of this machine, and on one.

use std::process::Command;

use crate::common::root;
use crate::measuring::assert_read;

const ONE: [&str; 3] = ["product", "pass", "attention"];
const KINDS: [&str; 7] =
    ["product", "pass", "attention", "all_gather", "reduce_scatter", "all_reduce", "all_to_all"];

#[test]
fn what_one_process_measures_is_read() {
    let mut script = Command::new("python3");
    script.arg(root().join("cli/python/measure_torch.py")).arg("--quick");
    assert_read(&mut script, "measure-torch", &ONE, "torch");
}

#[test]
fn what_processes_measure_is_read() {
    let mut script = Command::new("python3");
    script
        .args(["-m", "torch.distributed.run", "--nproc-per-node=2"])
        .arg(root().join("cli/python/measure_torch.py"))
        .args(["--quick", "--dtypes=bf16,f32"]);
    assert_read(&mut script, "measure-torch-2", &KINDS, "torch");
}
