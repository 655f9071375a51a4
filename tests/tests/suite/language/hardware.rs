//! Hardware: presets against the book's numbers, hardware files, and clusters against the cost
//! model's formulas.

use serde_json::Value;
use shardwise::{Hardware, Options, Planned, Strategy, hardware};
use shardwise_ir::ids::AxisId;
use shardwise_ir::mesh::AxisKind::{Dcn, Switch};
use shardwise_passes::report::StepCost;
use shardwise_tests::facts::holds;
use shardwise_tests::snapshot::snapshot;
use shardwise_tests::{drawn, read};

fn records() -> Vec<Value> {
    let all: Value =
        serde_json::from_str(&read("tests/facts/hardware.json")).expect("the facts are JSON");
    all.as_array().expect("a list").clone()
}

fn plan(source: &str, known: &[Hardware]) -> Planned {
    let options =
        Options { known: known.to_vec(), memory: Some(f64::INFINITY), ..Options::default() };
    shardwise::plan("hardware", source, &options).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} {b}");
}

#[test]
fn presets_have_the_numbers_of_their_sources() {
    let names: Vec<String> = records()
        .iter()
        .map(|record| record["id"].as_str().unwrap_or_default().to_owned())
        .collect();
    let mut presets: Vec<&str> = Hardware::preset_names().collect();
    assert!(names.iter().all(|name| presets.contains(&name.as_str())), "{names:?}");
    presets.retain(|name| !names.iter().any(|known| known == name));
    assert_eq!(presets, [""; 0], "every preset has its record");
    for record in records() {
        let chip = Hardware::preset(record["id"].as_str().unwrap_or_default())
            .expect("the preset is there");
        let numbers = [
            ("f32", chip.f32_flops),
            ("bf16", chip.bf16_flops),
            ("int8", chip.int8_flops),
            ("fp8", chip.fp8_flops),
            ("fp4", chip.fp4_flops),
            ("memory", chip.hbm_bytes),
            ("memory_bandwidth", chip.hbm_bandwidth),
            ("link_bandwidth", chip.link_bandwidth),
            ("network_bandwidth", chip.dcn_bandwidth),
            ("host_bandwidth", chip.host_bandwidth),
        ];
        for (key, given) in numbers {
            match (record[key].as_f64(), given) {
                (Some(wanted), Some(given)) => near(given, wanted),
                (wanted, given) => assert_eq!(wanted, given, "{} {key}", chip.name),
            }
        }
        if let Some(pod) = record["pod"].as_array() {
            assert_eq!(
                pod.iter().filter_map(Value::as_u64).collect::<Vec<_>>(),
                chip.pod,
                "{}",
                chip.name
            );
        }
    }
}

#[test]
fn presets_are_complete() {
    for chip in Hardware::preset_names().filter_map(Hardware::preset) {
        let numbers = [
            chip.f32_flops,
            chip.bf16_flops,
            chip.hbm_bytes,
            chip.hbm_bandwidth,
            chip.link_bandwidth,
            chip.dcn_bandwidth,
        ];
        assert!(numbers.iter().all(Option::is_some) && !chip.pod.is_empty(), "{chip:?}");
    }
}

#[test]
fn products_run_at_the_peak_of_their_dtype() {
    let seconds = |chip: &str, dtype: &str| {
        let source = format!(
            "hardware {chip}\nmesh X=1\ndim M=8192, K=8192, N=8192\n\
             input B: {dtype}[M, K], C: {dtype}[K, N]\nD = B *K C\noutput D[M, N]\n"
        );
        plan(&source, &[]).report.serial_s
    };
    let flops = 2.0 * 8192_f64.powi(3);
    for (chip, dtype, peak) in [
        ("h100", "f32", 494.5e12),
        ("h100", "bf16", 989e12),
        ("h100", "fp8", 2000e12),
        ("a100", "f32", 156e12),
        ("tpu-v5p", "f32", 459e12),
        ("tpu-v5p", "int8", 918e12),
        ("tpu-v5p", "fp8", 459e12),
        ("b300", "int8", 150e12),
        ("b300", "fp4", 14000e12),
        ("h100", "fp4", 2000e12),
        ("mi355x", "f32", 157.3e12),
        ("trainium2", "fp8", 1299e12),
    ] {
        near(seconds(chip, dtype), flops / peak);
    }
}

#[test]
fn a_preset_printed_as_a_file_is_the_preset() {
    for chip in Hardware::preset_names().filter_map(Hardware::preset) {
        let mut file = hardware::toml(&chip);
        file.push('\n');
        assert_eq!(
            hardware::parse("hw.toml", &file).unwrap_or_else(|e| panic!("{e}\n{file}")),
            [chip]
        );
    }
}

/// The programs of the page, each with the chips that the files above it describe.
fn page() -> Vec<(String, Vec<Hardware>)> {
    let text = read("compiler/docs/hardware.md");
    let mut known = Vec::new();
    let mut programs = Vec::new();
    for block in text.split("```").skip(1).step_by(2) {
        match block.split_once('\n') {
            Some(("toml", file)) => known
                .extend(hardware::parse("page", file).unwrap_or_else(|e| panic!("{e}\n{file}"))),
            Some(("shard", program)) => programs.push((program.to_owned(), known.clone())),
            Some(("text", reported)) if reported.starts_with("# ") => {
                let (program, known) = programs.last().expect("a plan follows its program");
                let plan = plan(program, known).to_string();
                assert!(
                    reported.lines().all(|line| plan.lines().any(|other| other == line)),
                    "{reported}\n{plan}"
                );
            }
            Some(("text", statements)) => {
                assert!(shardwise::format("page", statements).is_ok(), "{statements}");
            }
            _ => panic!("a block is a file or a program: {block}"),
        }
    }
    programs
}

/// Seconds of the links of each axis.
fn busy(planned: &Planned) -> Vec<f64> {
    planned.cost().axes.iter().map(|axis| axis.busy_s).collect()
}

/// Seconds of the collectives over the second axis: the links are busy with those of others, too.
fn over_second(planned: &Planned) -> f64 {
    let of_axis = planned.report.steps.iter().filter(|cost| cost.axes.contains(&AxisId::new(1)));
    of_axis.map(StepCost::total_s).sum()
}

#[test]
fn the_page_holds() {
    let programs = page();
    let planned: Vec<Planned> =
        programs.iter().map(|(program, known)| plan(program, known)).collect();
    for ((_, known), planned) in programs.iter().zip(&planned) {
        assert_eq!(plan(&planned.to_string(), known).to_string(), planned.to_string());
    }
    let [between, inside, across, pods, torus, node, rail, dcn] = &planned[..] else {
        panic!("{} programs", planned.len())
    };
    let linted = shardwise::lint::lint(
        "across",
        &programs[2].0,
        &Options::default(),
        &shardwise::lint::Settings::default(),
    );
    assert_eq!(
        linted.findings.iter().map(|finding| finding.diag.code).collect::<Vec<_>>(),
        ["SW309"]
    );
    let weight = 2.0 * 8192.0 * 32768.0 / 8.0;
    // An AllReduce of an eighth of the weight over 16 nodes, each chip by its share.
    near(busy(between)[0], 2.0 * weight * 15.0 / 16.0 / 50e9);
    let activations = 2.0 * 1024.0 * 8192.0;
    near(busy(inside)[1], 2.0 * activations * 7.0 / 8.0 / 450e9);
    // Scattered inside the node, reduced between the two by each chip's share of what is left,
    // gathered inside.
    let across_s = over_second(across);
    near(across_s, busy(inside)[1] + 2.0 * activations / 8.0 * 1.0 / 2.0 / 50e9);
    assert!(across_s > 1.5 * busy(inside)[1], "the price of leaving the node");
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
        let source =
            format!("hardware {hardware}\nmesh {mesh}\ndim B=64\ninput A[B]\noutput A[B]\n");
        let planned = plan(&source, &[]);
        assert!(planned.to_string().contains(&format!("\nmesh {mesh}\n")));
        planned.plan.program.mesh.axes.iter().map(|axis| axis.kind()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("h100", "X=4, Y=8"), [Dcn, Switch]);
    assert_eq!(kinds("h100", "X=2, Y=4"), [Switch, Switch]);
    assert_eq!(kinds("h100", "X=2, Y=16"), [Dcn, Dcn], "an axis larger than a node fills it");
    assert_eq!(
        kinds("h100", "X=2, Y=11"),
        [Switch, Dcn],
        "one that puts no even share into a node leaves it to the others"
    );
    assert_eq!(kinds("h100", "X=8 nvlink, Y=8"), [Switch, Dcn], "what is written goes first");
    assert_eq!(kinds("h100", "X=8 nvlink, Y=8 ib"), [Switch, Dcn]);
    assert_eq!(kinds("h100", "X=8, Y=8 ib"), [Switch, Dcn]);
    assert_eq!(kinds("gb200-nvl72", "X=4, Y=64"), [Dcn, Switch]);
}

#[test]
fn one_reduction_over_pods_costs_what_its_parts_do() {
    let head = "hardware tpu-v5p\nmesh P=2 dcn, X=16\ndim B=65536, D=8192, F=8192\n\
        input Tmp[B_PX, F], dOut[B_PX, D]\n";
    let whole = plan(&format!("{head}dW = Tmp *B dOut\noutput dW[F, D]\n"), &[]);
    let product = "plan\n".to_owned() + head + "dW[F, D] {U_P,X} = Tmp[B_PX, F] *B dOut[B_PX, D]\n";
    let parts = plan(
        &format!(
            "{product}dW[F, D_X] {{U_P}} = ReduceScatter_{{X,D}}(dW[F, D] {{U_P,X}})\n\
                dW[F, D_X] = AllReduce_P(dW[F, D_X] {{U_P}})\ndW[F, D] = AllGather_X(dW[F, D_X])\n\
                output dW[F, D]\n"
        ),
        &[],
    );
    near(whole.report.comm_s, parts.report.comm_s);
    assert_eq!(whole.status_name(), "optimal");
    let flat = plan(
        &format!(
            "{product}dW[F, D] {{U_P}} = AllReduce_X(dW[F, D] {{U_P,X}})\n\
                dW[F, D] = AllReduce_P(dW[F, D] {{U_P}})\noutput dW[F, D]\n"
        ),
        &[],
    );
    assert!(
        flat.report.comm_s > 5.0 * whole.report.comm_s,
        "reducing everything between pods is costly"
    );
}

#[test]
fn the_textbook_goes_pod_by_pod_as_the_book_says() {
    let options = Options { strategy: Strategy::Textbook, ..Options::default() };
    let planned = shardwise::plan("p5-dcn", &read("tests/programs/book/p5-dcn.shard"), &options)
        .unwrap_or_else(|e| panic!("{e}"));
    let dcn =
        planned.cost().axes.iter().find(|axis| axis.axis == "P").map_or(0.0, |axis| axis.busy_s);
    let share = planned.plan.program.mesh.devices() as f64 / 2.0;
    // One of two weights; of two slices, each sends half of what a long ring would.
    holds("P5-DCN-TCOMM", &[2.0 * 2.0 * dcn / (8192.0 * 32768.0 / (share * 6.25e9))]);
}

#[test]
fn every_mistake_in_a_file_has_its_place() {
    let file = "[\"my chip\"]\nbase = \"h10\"\n\n[b]\nbf16 = \"fast\"\nlinkbandwidth = 1e9\n\
        links = \"switch\"\nwraparound = \"of-16\"\npod = [0]\n\n[c]\nmemory = -1\n\n[d]\n\
        bf16 = 1e15\nlinks = \"tors\"\n";
    let findings = hardware::parse("hw.toml", file).expect_err("all of it is wrong");
    assert!(findings.reports.iter().all(|report| report.diag.code == "SW407"));
    snapshot("hardware", "mistakes-in-a-file", &drawn(&findings));
    for broken in ["", "[a", "x = 1\n", "[a]\nbf16 = 1e15\n[a]\nbf16 = 1e15\n"] {
        assert!(hardware::parse("hw.toml", broken).is_err(), "{broken}");
    }
}

#[test]
fn a_name_with_a_point_is_to_be_quoted() {
    let wrong = "[h100.80gb]\nbase = \"h100\"\n[h100.94gb]\nbase = \"h100\"\n";
    let findings = hardware::parse("hw.toml", wrong).expect_err("these are tables in a table");
    let shown = drawn(&findings);
    assert_eq!(findings.reports.len(), 1, "{shown}");
    assert!(shown.contains("quote a name with a point in it: `[\"h100.80gb\"]`"), "{shown}");
    let quoted = wrong.replace('[', "[\"").replace(']', "\"]");
    assert_eq!(hardware::parse("hw.toml", &quoted).map(|chips| chips.len()).ok(), Some(2));
}

/// Seconds of the collectives of a program on `mesh`, by the book's rules: with two axes the search
/// has other ways. `_A` is split over all of it.
fn comm(mesh: &str, axes: &str, body: &str) -> f64 {
    comm_on("h100", mesh, axes, body)
}

/// The same on other hardware: `wide-node` has nodes of 16.
fn comm_on(hardware: &str, mesh: &str, axes: &str, body: &str) -> f64 {
    let known = hardware::parse("hw.toml", "[wide-node]\nbase = \"h100\"\npod = [16]\n");
    let source = format!(
        "hardware {hardware}\nmesh {mesh}\ndim I=4096, J=8192, K=2048\n{}",
        body.replace("_A", &format!("_{axes}"))
    );
    let options = Options {
        known: known.expect("it is a file"),
        memory: Some(f64::INFINITY),
        strategy: Strategy::Textbook,
        ..Options::default()
    };
    shardwise::plan("comm", &source, &options)
        .unwrap_or_else(|e| panic!("{e}\n{source}"))
        .report
        .comm_s
}

#[test]
fn an_axis_that_leaves_the_node_costs_what_two_axes_do() {
    let programs = [
        "input V[I_A, J]\noutput V[I, J]\n",
        "input V[I, J_A], W[J_A, K]\nOut = V *J W\noutput Out[I, K]\n",
        "input V[I, J_A], W[J_A, K]\nOut = V *J W\noutput Out[I_A, K]\n",
        "input V[I_A, J, K]\noutput V[I, J_A, K]\n",
    ];
    for body in programs {
        let cut = comm("X=16", "X", body);
        near(comm("P=2 ib, Y=8 nvlink", "PY", body), cut);
        // Folded by hand in the same way, and in the other: 8 nodes have two each.
        near(comm("X=16 over 2x8", "X", body), cut);
        near(comm("X=16 over 8x2", "X", body), comm("P=8 ib, Y=2 nvlink", "PY", body));
        // Entirely between nodes it is costlier, entirely inside one it would be cheaper.
        let inside = comm_on("wide-node", "X=16 nvlink", "X", body);
        assert!(comm("X=16 ib", "X", body) > cut && inside < cut, "{body}");
        // Two axes that outgrow a node together: the outer one is cut, and the network has the same
        // to carry.
        let rest = comm("X=4, Y=4", "XY", body);
        assert!(rest <= cut && rest > comm("X=2, Y=4", "XY", body), "{body}");
    }
}

#[test]
fn the_network_takes_what_leaves_the_node() {
    let bytes = 2.0 * 4096.0 * 8192.0;
    let gather = comm("X=32", "X", "input V[I_A, J]\noutput V[I, J]\n");
    near(gather, bytes * 7.0 / 8.0 / 450e9 + bytes / 8.0 * 3.0 / 4.0 / 50e9);
    let planned = plan(
        "hardware h100\nmesh X=32\ndim I=4096, J=8192\ninput V[I_X, J]\noutput V[I, J]\n",
        &[],
    );
    let nodes = planned.json().mesh[0].nodes.clone().expect("X leaves the node");
    assert_eq!((nodes.inside, nodes.nodes), (8, 4));
    near(nodes.network_s, bytes / 8.0 * 3.0 / 4.0 / 50e9);
    let line = planned
        .to_string()
        .lines()
        .find(|line| line.contains("leaves the node"))
        .map(str::to_owned);
    assert_eq!(
        line.as_deref(),
        Some("# X=32 leaves the node: 8 inside, 4 nodes, 126 us of its 256 us between them")
    );
    let everything = 2.0 * 4096.0 * 8192.0 * 2048.0 / 16.0;
    let exchange = comm("X=16", "X", "input V[I_A, J, K]\noutput V[I, J_A, K]\n");
    near(exchange, everything * 7.0 / 8.0 / 450e9 + everything / 2.0 / 50e9);
    // Some neighbour is in another node: stages send at the rate of the network.
    let held = 2.0 * 4096.0 / 16.0 * 8192.0;
    near(comm("X=16", "X", "input V[I_A, J]\nW = roll_I(V, 256)\noutput W[I_A, J]\n"), held / 50e9);
    // What the axis crosses is dcn for an assert that forbids it.
    let forbidden = "hardware h100\nmesh X=16\ndim I=4096\ninput V[I_X]\noutput V[I]\n\
        assert no AllGather over dcn\n";
    let error =
        shardwise::plan("forbidden", forbidden, &Options::default()).expect_err("it crosses");
    assert_eq!(error.reports[0].diag.code, "SW501");
    assert!(
        shardwise::plan("inside", &forbidden.replace("X=16", "X=8"), &Options::default()).is_ok()
    );
}

#[test]
fn weights_split_over_an_axis_that_leaves_the_node_are_warned_of() {
    let source = "hardware h100\nmesh X=16\ndim B=4096, D=8192, F=32768\ninput Act[B, F_X]\n\
        param Wout[F_X, D]\nOut = Act *F Wout\noutput Out[B, D]\n";
    let findings = |source: &str| {
        shardwise::lint::lint(
            "tp",
            source,
            &Options::default(),
            &shardwise::lint::Settings::default(),
        )
        .findings
    };
    let found = findings(source);
    assert_eq!(found.len(), 1);
    assert!(
        found[0]
            .diag
            .message
            .ends_with("activations cross dcn links: 429 us, 168 us of it between nodes"),
        "{}",
        found[0].diag.message
    );
    assert!(
        found[0]
            .diag
            .help
            .as_ref()
            .is_some_and(|help| help.contains("an axis of 8 for weights, and one of 2"))
    );
    assert_eq!(findings(&source.replace("X=16", "X=8")), []);
}

#[test]
fn links_that_are_not_known_are_asked_for_with_the_reason() {
    let help = |mesh: &str| {
        let source = format!("hardware bare\nmesh {mesh}\ndim B=64\ninput A[B]\noutput A[B]\n");
        let file = "[bare]\nbf16 = 1e15\nlink_bandwidth = 4e11\npod = [8]\n";
        let known = hardware::parse("bare.toml", file).expect("it is a file");
        let findings = shardwise::plan("bare", &source, &Options { known, ..Options::default() })
            .expect_err("the file has no figure");
        assert_eq!(findings.reports[0].diag.code, "SW404");
        findings.reports[0].diag.help.clone().unwrap_or_default()
    };
    assert!(
        help("X=16")
            .starts_with("a domain of 8 chips fits 8 along this axis, so it runs over 2 domains; ")
    );
    assert!(
        help("X=2, Y=8")
            .starts_with("it does not fit beside the axes inside it into a domain of 8 chips")
    );
    assert!(help("X=2 ib").starts_with("choose hardware"));
}

#[test]
fn axes_of_one_switch_share_its_port() {
    let takes = |mesh: &str, sharded: &str| {
        let source = format!(
            "hardware h100\nmesh {mesh}\ndim N=67108864\ninput A[N_{{{sharded}}}]\noutput A[N]\n"
        );
        plan(&source, &[]).report.serial_s
    };
    let alone = takes("X=8", "X");
    // 134 MB, of which seven eighths come over a port of 450 GB/s.
    near(alone, 2.0 * 67_108_864.0 * 7.0 / 8.0 / 450e9);
    near(takes("X=2, Y=4", "X,Y"), alone);
    near(takes("X=2, Y=2, Z=2", "X,Y,Z"), alone);
}

#[test]
fn collectives_over_axes_of_one_network_take_turns() {
    let report = |mesh: &str, body: &str| {
        let source = format!(
            "hardware h100\nmesh {mesh}\ndim N=33554432\ninput A: f32[N] {{U_X}}, \
             C: f32[N] {{U_Y}}\n{body}output A[N], C[N]\n"
        );
        plan(&source, &[]).report
    };
    let beside = |mesh: &str| {
        let report = report(
            mesh,
            "A: f32[N] = AllReduce_X(A[N] {U_X})\nC: f32[N] = AllReduce_Y(C[N] {U_Y})\n",
        );
        near(report.schedule.makespan_s, report.overlap_s);
        report.overlap_s / report.serial_s
    };
    near(beside("X=2, Y=4"), 1.0);
    near(beside("X=2 ib, Y=4 ib"), 1.0);
    // The switch and the network are two ports; an axis that leaves the node counts at the latter.
    assert!(beside("X=8 ib, Y=8") < 0.95);
    assert!(beside("X=4, Y=4") < 0.95);
    near(beside("X=16, Y=2 ib"), 1.0);
    // Halves of an array in turn over both axes take no less than the array over one of them.
    let halves = "dim H=N/2\ninput a: f32[H] {U_XY}, c: f32[H] {U_XY}\n\
                  a: f32[H] {U_Y} = AllReduce_X(a[H] {U_XY})\n\
                  c: f32[H] {U_X} = AllReduce_Y(c[H] {U_XY})\noutput a[H], c[H]\n";
    let whole =
        plan("hardware h100\nmesh X=8\ndim N=33554432\ninput A: f32[N] {U_X}\noutput A[N]\n", &[]);
    let source = format!("hardware h100\nmesh X=2, Y=4\ndim N=33554432\n{halves}");
    let in_turn = plan(&source, &[]).report.schedule.makespan_s;
    assert!(in_turn >= whole.report.serial_s * (1.0 - 1e-9), "{in_turn}");
}
