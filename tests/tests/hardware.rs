//! Hardware: presets against the book's numbers, files against what they say, and clusters against the cost model's formulas.

use serde_json::Value;
use shardwise::{Hardware, Options, Planned, Strategy, hardware};
use shardwise_ir::mesh::AxisKind::{Dcn, Switch};
use shardwise_tests::{drawn, facts, read};

fn records() -> Vec<Value> {
    let all: Value = serde_json::from_str(&read("tests/facts/hardware.json")).expect("the facts are JSON");
    all.as_array().expect("a list").clone()
}

fn plan(source: &str, known: &[Hardware]) -> Planned {
    let options = Options { known: known.to_vec(), memory: Some(f64::INFINITY), ..Options::default() };
    shardwise::plan("hardware", source, &options).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} {b}");
}

#[test]
fn presets_have_the_numbers_of_the_book() {
    let names: Vec<String> = records().iter().map(|record| record["id"].as_str().unwrap_or_default().to_owned()).collect();
    let mut presets: Vec<&str> = Hardware::preset_names().collect();
    assert!(names.iter().all(|name| presets.contains(&name.as_str())), "{names:?}");
    presets.retain(|name| !names.iter().any(|known| known == name));
    assert_eq!(presets, [""; 0], "every preset has its record");
    for record in records() {
        let chip = Hardware::preset(record["id"].as_str().unwrap_or_default()).expect("the preset is there");
        let numbers = [
            ("bf16", chip.bf16_flops),
            ("int8", chip.int8_flops),
            ("fp8", chip.fp8_flops),
            ("memory", chip.hbm_bytes),
            ("memory_bandwidth", chip.hbm_bandwidth),
            ("link_bandwidth", chip.link_bandwidth),
            ("network_bandwidth", chip.dcn_bandwidth),
        ];
        for (key, given) in numbers {
            match (record[key].as_f64(), given) {
                (Some(wanted), Some(given)) => near(given, wanted),
                (wanted, given) => assert_eq!(wanted, given, "{} {key}", chip.name),
            }
        }
        if let Some(pod) = record["pod"].as_array() {
            assert_eq!(pod.iter().filter_map(Value::as_u64).collect::<Vec<_>>(), chip.pod, "{}", chip.name);
        }
    }
}

#[test]
fn a_preset_printed_as_a_file_is_the_preset() {
    for chip in Hardware::preset_names().filter_map(Hardware::preset) {
        let mut file = hardware::toml(&chip);
        if chip.bf16_flops.is_none() {
            assert!(chip.fp8_flops.is_some());
        }
        file.push('\n');
        assert_eq!(hardware::parse("hw.toml", &file).unwrap_or_else(|e| panic!("{e}\n{file}")), [chip]);
    }
}

/// The programs of the page, each with the chips that the files above it describe.
fn page() -> Vec<(String, Vec<Hardware>)> {
    let text = read("compiler/docs/hardware.md");
    let mut known = Vec::new();
    let mut programs = Vec::new();
    for block in text.split("```").skip(1).step_by(2) {
        match block.split_once('\n') {
            Some(("toml", file)) => known.extend(hardware::parse("page", file).unwrap_or_else(|e| panic!("{e}\n{file}"))),
            Some(("shard", program)) => programs.push((program.to_owned(), known.clone())),
            Some(("text", told)) if told.starts_with("# ") => {
                let (program, known) = programs.last().expect("a plan stands behind its program");
                let plan = plan(program, known).to_string();
                assert!(told.lines().all(|line| plan.lines().any(|other| other == line)), "{told}\n{plan}");
            }
            Some(("text", statements)) => assert!(shardwise::format("page", statements).is_ok(), "{statements}"),
            _ => panic!("a block is a file or a program: {block}"),
        }
    }
    programs
}

/// Seconds of the links of each axis.
fn busy(planned: &Planned) -> Vec<f64> {
    planned.cost().axes.iter().map(|axis| axis.busy_s).collect()
}

#[test]
fn the_page_holds() {
    let programs = page();
    let planned: Vec<Planned> = programs.iter().map(|(program, known)| plan(program, known)).collect();
    for ((_, known), planned) in programs.iter().zip(&planned) {
        assert_eq!(plan(&planned.to_string(), known).to_string(), planned.to_string());
    }
    let [between, inside, across, pods, torus, node, rail, dcn] = &planned[..] else { panic!("{} programs", planned.len()) };
    let linted = shardwise::lint::lint("across", &programs[2].0, &Options::default(), &shardwise::lint::Settings::default());
    assert_eq!(linted.findings.iter().map(|finding| finding.diag.code).collect::<Vec<_>>(), ["SW309"]);
    let weight = 2.0 * 8192.0 * 32768.0 / 8.0;
    // An AllReduce of an eighth of the weight over 16 nodes, each chip by its share.
    near(busy(between)[0], 2.0 * weight * 15.0 / 16.0 / 50e9);
    let activations = 2.0 * 1024.0 * 8192.0;
    near(busy(inside)[1], 2.0 * activations * 7.0 / 8.0 / 450e9);
    // Scattered inside the node, reduced between the two by each chip's share of what is left, gathered inside.
    near(busy(across)[1], busy(inside)[1] + 2.0 * activations / 8.0 * 1.0 / 2.0 / 50e9);
    assert!(busy(across)[1] > 1.5 * busy(inside)[1], "the price of leaving the node");
    let shard = 2.0 * 8192.0 * 32768.0 / 4.0;
    near(pods.report.comm_s, 2.0 * (shard / 1.8e11 + shard / 16.0 / 2.0 / 6.25e9));
    near(torus.report.comm_s, 2.0 * 8192.0 * 1024.0 / 1.6e11);
    near(busy(node)[0], 2.0 * weight * 3.0 / 4.0 / 45e9);
    near(busy(rail)[0], weight * 31.0 / 32.0 / 100e9);
    let slice = 2.0 * 8192.0 * 8192.0;
    near(dcn.report.comm_s, slice / 9e10 + 2.0 * slice / 16.0 * 3.0 / 4.0 / 12.5e9);
}

#[test]
fn axes_of_gpus_fill_the_node_from_the_last_one() {
    let kinds = |hardware: &str, mesh: &str| {
        let source = format!("hardware {hardware}\nmesh {mesh}\ndim B=64\ninput A[B]\noutput A[B]\n");
        let planned = plan(&source, &[]);
        assert!(planned.to_string().contains(&format!("\nmesh {}\n", mesh.replace("nvlink", "switch").replace("ib", "dcn"))));
        planned.plan.program.mesh.axes.iter().map(|axis| axis.kind()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("h100", "X=4, Y=8"), [Dcn, Switch]);
    assert_eq!(kinds("h100", "X=2, Y=4"), [Switch, Switch]);
    assert_eq!(kinds("h100", "X=2, Y=16"), [Dcn, Dcn], "an axis larger than a node fills it");
    assert_eq!(kinds("h100", "X=2, Y=11"), [Switch, Dcn], "one that puts no even share into a node leaves it to the others");
    assert_eq!(kinds("h100", "X=8 nvlink, Y=8"), [Switch, Dcn], "what is written goes first");
    assert_eq!(kinds("h100", "X=8 nvlink, Y=8 ib"), [Switch, Dcn]);
    assert_eq!(kinds("h100", "X=8, Y=8 ib"), [Switch, Dcn]);
    assert_eq!(kinds("gb200-nvl72", "X=4, Y=64"), [Dcn, Switch]);
}

#[test]
fn one_reduction_over_pods_costs_what_its_parts_do() {
    let head = "hardware tpu-v5p\nmesh P=2 dcn, X=16\ndim B=65536, D=8192, F=8192\ninput Tmp[B_PX, F], dOut[B_PX, D]\n";
    let whole = plan(&format!("{head}dW = Tmp *B dOut\noutput dW[F, D]\n"), &[]);
    let product = "plan\n".to_owned() + head + "dW[F, D] {U_P,X} = Tmp[B_PX, F] *B dOut[B_PX, D]\n";
    let parts = plan(
        &format!(
            "{product}dW[F, D_X] {{U_P}} = ReduceScatter_{{X,D}}(dW[F, D] {{U_P,X}})\ndW[F, D_X] = AllReduce_P(dW[F, D_X] {{U_P}})\n\
             dW[F, D] = AllGather_X(dW[F, D_X])\noutput dW[F, D]\n"
        ),
        &[],
    );
    near(whole.report.comm_s, parts.report.comm_s);
    assert_eq!(whole.status_name(), "optimal");
    let flat = plan(
        &format!(
            "{product}dW[F, D] {{U_P}} = AllReduce_X(dW[F, D] {{U_P,X}})\ndW[F, D] = AllReduce_P(dW[F, D] {{U_P}})\noutput dW[F, D]\n"
        ),
        &[],
    );
    assert!(flat.report.comm_s > 5.0 * whole.report.comm_s, "reducing everything between pods is dear");
}

#[test]
fn the_textbook_goes_pod_by_pod_as_the_book_says() {
    let options = Options { strategy: Strategy::Textbook, ..Options::default() };
    let planned = shardwise::plan("p5-dcn", &read("tests/programs/book/p5-dcn.shard"), &options).unwrap_or_else(|e| panic!("{e}"));
    let dcn = planned.cost().axes.iter().find(|axis| axis.axis == "P").map_or(0.0, |axis| axis.busy_s);
    let share = planned.plan.program.mesh.devices() as f64 / 2.0;
    // One of two weights; of two slices, each sends half of what a long ring would.
    facts::holds("tests/facts/training.json", "P5-DCN-TCOMM", &[2.0 * 2.0 * dcn / (8192.0 * 32768.0 / (share * 6.25e9))]);
}

#[test]
fn every_mistake_in_a_file_has_its_place() {
    let file = "[\"my chip\"]\nbase = \"h10\"\n\n[b]\nbf16 = \"fast\"\nlinkbandwidth = 1e9\nlinks = \"switch\"\nwraparound = \"of-16\"\npod = [0]\n\n[c]\nmemory = -1\n\n[d]\nbf16 = 1e15\nlinks = \"tors\"\n";
    let findings = hardware::parse("hw.toml", file).expect_err("all of it is wrong");
    assert!(findings.reports.iter().all(|report| report.diag.code == "SW407"));
    insta::assert_snapshot!(drawn(&findings));
    for broken in ["", "[a", "x = 1\n", "[a]\nbf16 = 1e15\n[a]\nbf16 = 1e15\n"] {
        assert!(hardware::parse("hw.toml", broken).is_err(), "{broken}");
    }
}
