//! `calibrate`: rates from which measurements were made are found again; sampled kernels are met;
//! what is no measurement is refused.

use shardwise::calibrate::{Calibration, GroupFit, calibrate};
use shardwise::{Hardware, Options, Rates, hardware};
use shardwise_tests::planning::planned;
use shardwise_tests::{drawn, read};

pub(super) fn h100() -> Hardware {
    Hardware::preset("h100").expect("a preset")
}

pub(super) fn fitted(text: &str, base: &Hardware) -> Calibration {
    calibrate(&[("bench.csv", text)], base, "mine").unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn group<'c>(fitted: &'c Calibration, name: &str) -> &'c GroupFit {
    fitted.groups.iter().find(|group| group.name == name).expect("a group")
}

/// Times as a clock reads them: a few percent off, and one in sixteen far off.
struct Clock {
    /// Between 0 and 1: multiples of the golden ratio without their whole part spread evenly.
    uniform: f64,
    row: usize,
}

impl Clock {
    fn new(uniform: f64) -> Self {
        Self { uniform, row: 0 }
    }

    fn microseconds(&mut self, seconds: f64) -> f64 {
        self.uniform = (self.uniform + 0.618_033_988_749_895).fract();
        self.row += 1;
        let outlier = if self.row % 16 == 9 { 4.0 } else { 1.0 };
        seconds * 1e6 * (1.0 + 0.08 * (self.uniform - 0.5)) * outlier
    }
}

/// What a machine is made of in a test.
struct Machine {
    /// Shares of peak and memory bandwidth, and seconds.
    product: [f64; 3],
    pass: [f64; 2],
    /// Share, saturation, fixed and time of a device of links.
    link: [f64; 4],
}

const MACHINES: [Machine; 2] = [
    Machine { product: [0.71, 0.62, 4.2e-6], pass: [0.77, 2.2e-6], link: [0.66, 9e-6, 5e-6, 9e-7] },
    Machine { product: [0.43, 0.9, 9e-6], pass: [0.5, 6e-6], link: [0.92, 4e-5, 1.2e-5, 2.5e-6] },
];

impl Machine {
    /// Measurements by the laws of the page about hardware, written out here.
    fn measured(&self, clock: &mut Clock) -> String {
        let chip = h100();
        let (peak, memory) = (chip.bf16_flops.unwrap(), chip.hbm_bandwidth.unwrap());
        let mut text = String::from("kind,dtype,m,n,k,bytes,devices,measured_us\n");
        for edge in (7..14).map(|power| 2_f64.powi(power)) {
            for rows in [1.0, 64.0, edge] {
                let flops = 2.0 * rows * edge * edge / peak / self.product[0];
                let bytes = 2.0 * (2.0 * rows * edge + edge * edge) / memory / self.product[1];
                let time = clock.microseconds(flops.hypot(bytes) + self.product[2]);
                text += &format!("product,bf16,{rows},{edge},{edge},,,{time}\n");
            }
        }
        for bytes in (12..33).step_by(2).map(|power| 2_f64.powi(power)) {
            let time = clock.microseconds(bytes / memory / self.pass[0] + self.pass[1]);
            text += &format!("pass,,,,,{bytes},,{time}\n");
        }
        for devices in [2.0, 4.0, 8.0] {
            for bytes in (10..34).step_by(2).map(|power| 2_f64.powi(power)) {
                for (kind, ways) in [("all_gather", 1.0), ("all_to_all", 1.0)] {
                    let full = ways * bytes * (devices - 1.0) / devices / 450e9;
                    let [share, saturation, fixed, per_device] = self.link;
                    let time = full / share + (full * saturation).sqrt() + fixed;
                    let time = clock.microseconds(time + ways * devices * per_device);
                    text += &format!("{kind},,,,,{bytes},{devices},{time}\n");
                }
            }
        }
        text
    }

    fn check(&self, fitted: &Calibration) {
        let rates = fitted.hardware.measured;
        let near = |name: &str, found: Option<f64>, wanted: f64, share: f64| {
            let found = found.unwrap_or_default();
            assert!((found / wanted - 1.0).abs() < share, "{name}: {found} for {wanted}\n{fitted}");
        };
        near("product", rates.product, self.product[0], 0.03);
        near("product_memory", rates.product_memory, self.product[1], 0.05);
        near("product_fixed", rates.product_fixed_s, self.product[2], 0.05);
        near("pass_memory", rates.pass_memory, self.pass[0], 0.05);
        near("pass_fixed", rates.pass_fixed_s, self.pass[1], 0.05);
        near("link_share", rates.link.share, self.link[0], 0.05);
        near("link_saturation", rates.link.saturation_s, self.link[1], 0.25);
        near("link_fixed", rates.link.fixed_s, self.link[2], 0.1);
        near("link_per_device", rates.link.per_device_s, self.link[3], 0.1);
    }
}

#[test]
fn rates_are_found_again_in_noise_and_outliers() {
    for (start, machine) in [0.1, 0.6].into_iter().zip(&MACHINES) {
        let mut clock = Clock::new(start);
        let text = machine.measured(&mut clock);
        let fitted = fitted(&text, &h100());
        machine.check(&fitted);
        let residuals = fitted.groups.iter().flat_map(|group| &group.residuals);
        let left_out = residuals.filter(|residual| residual.left_out.is_some()).count();
        assert_eq!(left_out, clock.row / 16, "each outlier and nothing else\n{fitted}");
        for group in &fitted.groups {
            assert!(group.mean_and_median().0 < 0.03, "{fitted}");
        }
    }
}

#[test]
fn a_calibrated_chip_is_read_back_and_prices_plans() {
    let fitted = fitted(&MACHINES[0].measured(&mut Clock::new(0.3)), &h100());
    let known = hardware::parse("mine.toml", &fitted.hardware_file()).expect("a hardware file");
    assert_eq!(known, std::slice::from_ref(&fitted.hardware));
    let options = Options { known, rates: Some(Rates::Measured), ..Options::default() };
    let source = "hardware mine\nmesh X=1\ndim M=4096, N=4096, K=4096\ninput A[M, K], B[K, N]\n\
        C = A *K B\noutput C[M, N]\n";
    let found_s = planned(source, &options).report.serial_s;
    let wanted_s = 2.0 * 4096_f64.powi(3) / 989e12 / 0.71;
    assert!((found_s / wanted_s - 1.0).abs() < 0.1, "{found_s} {wanted_s}");
}

/// The sampled kernels of the chip that the fit can read: those of one dtype, cast apart.
fn sampled(chip: &str) -> String {
    let samples = read("tests/measured/kernels.csv");
    let mut rows = samples.lines();
    let head = rows.next().unwrap_or_default();
    let is_plain = |row: &&str| {
        let fields: Vec<&str> = row.split(',').collect();
        fields[0] == chip && ["bf16", "f16"].contains(&fields[2]) && !fields[1].ends_with("_kernel")
    };
    let rows: Vec<&str> = rows.filter(is_plain).collect();
    format!("{head}\n{}\n", rows.join("\n"))
}

#[test]
fn sampled_kernels_are_met_at_least_as_well_as_by_the_preset() {
    for chip in ["a100", "h100", "h200", "b200"] {
        let fitted = fitted(&sampled(chip), &Hardware::preset(chip).expect("a preset"));
        for name in ["products", "attention", "collectives"] {
            let group = group(&fitted, name);
            let (mean, _) = group.mean_and_median();
            assert!(mean <= group.before && mean < 0.35, "{chip} {name}\n{fitted}");
        }
        let products = group(&fitted, "products").mean_and_median();
        let links = group(&fitted, "collectives").mean_and_median();
        assert!(products.0 < 0.15 && links.0 < 0.15, "{chip}\n{fitted}");
    }
}

/// All-gathers over 2 H100 cards, as nccl-tests print them, at the preset's own rates.
fn nccl_output() -> String {
    let mut text = String::from(
        "# nThread 1 nGpus 2 minBytes 1024 maxBytes 1073741824 step: 4(factor)\n#\n\
         # Using devices\n\
         #  Rank  0 Group  0 Pid   7 on node-1 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n\
         #  Rank  1 Group  0 Pid   7 on node-1 device  1 [0000:43:00] NVIDIA H100 80GB HBM3\n\
         #\n#                                       out-of-place            in-place\n\
         #       size         count      type   redop    root     time   algbw   busbw #wrong     \
         time   algbw   busbw #wrong\n\
         #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            \
         (us)  (GB/s)  (GB/s)\n",
    );
    for size in (10..31).step_by(2).map(|power| 1_u64 << power) {
        let full = size as f64 / 2.0 / 450e9;
        let time = (full / 0.7 + (full * 2e-5).sqrt() + 6e-6) * 1e6;
        text += &format!(
            "{size:>12} {:>12} float none -1 {time:.2} 1.0 1.0 0 {:.2} 1.0 1.0 0\n",
            size / 4,
            time * 1.01
        );
    }
    text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n#\n"
}

#[test]
fn the_output_of_nccl_tests_is_read() {
    let output = nccl_output();
    for (file, text) in [
        ("all_gather.log", output.clone()),
        ("log.txt", format!("$ ./build/all_gather_perf -b 1K -e 1G -g 2\n{output}")),
    ] {
        let fitted = calibrate(&[(file, &text)], &h100(), "mine").expect("measurements");
        let links = group(&fitted, "collectives");
        assert_eq!(links.residuals.len(), 22, "out of place and in place");
        assert!((fitted.hardware.measured.link.share.unwrap() - 0.7).abs() < 0.02, "{fitted}");
        let before = h100().measured.link;
        assert_eq!(fitted.hardware.measured.link.per_device_s, before.per_device_s, "{fitted}");
    }
}

#[test]
fn of_two_times_that_are_one_sum_that_of_a_device_stays() {
    let output = format!("# all_gather_perf\n{}", nccl_output());
    for text in [output.clone(), output.repeat(2), output.repeat(3)] {
        let fitted = fitted(&text, &h100());
        let links = group(&fitted, "collectives");
        assert_eq!(links.undetermined, ["link_per_device"], "{fitted}");
        // 6 us, without the time of two devices.
        let fixed_s = fitted.hardware.measured.link.fixed_s.unwrap_or_default();
        let per_device_s = h100().measured.link.per_device_s.unwrap_or_default();
        assert!((fixed_s + 2.0 * per_device_s - 6e-6).abs() < 2e-7, "{fitted}");
    }
}

#[test]
fn a_log_of_several_runs_has_the_collective_and_the_ranks_of_each() {
    let two = nccl_output();
    let rank = "#  Rank  1 Group  0 Pid   7 on node-1 device  1 [0000:43:00] NVIDIA H100\n";
    let four = two.replace("# Using devices\n", &format!("# Using devices\n{rank}{rank}"));
    let halves = four.replacen("Group  0", "Group  1", 2);
    let log = |second: &str, then: &str| {
        format!("$ ./all_gather_perf -g 2\n{two}$ ./{second} -g 4\n{then}")
    };
    let kernels = |text: &str| {
        let fitted = calibrate(&[("log", text)], &h100(), "mine").expect("measurements");
        let rows = group(&fitted, "collectives").residuals.iter();
        let mut all: Vec<_> = rows.map(|row| row.kernel.clone()).collect();
        let short = |kernel: &String| kernel.replace(" of 1.02 kB", "");
        all.retain(|kernel| kernel.contains(" of 1.02 kB"));
        all.sort();
        all.dedup();
        all.iter().map(short).collect::<Vec<_>>()
    };
    let found = kernels(&log("all_reduce_perf", &four));
    assert_eq!(found, ["all_gather over 2", "all_reduce over 4"]);
    // The second run has no name of its own, the first one is named where it ends.
    let unnamed = format!("$ all_gather_perf\n{two}# Collective test concluded: x_perf\n{four}");
    assert_eq!(kernels(&unnamed), ["all_gather over 2", "all_gather over 4"]);
    assert_eq!(
        kernels(&log("all_reduce_perf", &halves)),
        ["all_gather over 2", "all_reduce over 2"]
    );
    let log = log("sendrecv_perf", &four);
    let findings = calibrate(&[("log", &log)], &h100(), "mine").expect_err("no collective");
    let diag = &findings.reports[0].diag;
    assert_eq!(diag.message, "`sendrecv_perf` measures no collective of a plan");
}

#[test]
fn results_of_a_log_that_are_wrong_are_refused() {
    let output = format!("# all_gather_perf\n{}", nccl_output());
    let row = output.lines().find(|line| line.contains(" 6.21 ")).expect("a row");
    let (before, _) = row.trim_end().rsplit_once(' ').expect("a last column");
    for count in ["17", "1.04858e+06"] {
        let text = output.replace(row, &format!("{before} {count}"));
        let findings = calibrate(&[("log", &text)], &h100(), "mine").expect_err("wrong elements");
        assert_eq!(findings.reports[0].diag.code, "SW412");
        assert_eq!(findings.to_string(), format!("{count} elements of this result are wrong"));
    }
}

#[test]
fn times_of_a_log_are_above_zero_or_not_there() {
    let output = format!("# all_gather_perf\n{}", nccl_output());
    assert_eq!(output.matches(" 6.21 ").count(), 1);
    for time in ["-6.21", "0.00", "nan", "-nan", "inf", "fast"] {
        let text = output.replace(" 6.21 ", &format!(" {time} "));
        let findings = calibrate(&[("log", &text)], &h100(), "mine").expect_err(time);
        assert_eq!(findings.reports[0].diag.code, "SW412");
        assert_eq!(findings.to_string(), format!("`{time}` is no time"));
        assert!(drawn(&findings).contains("[log:11:1]"), "{}", drawn(&findings));
    }
    let none = output.replace(" 6.21 ", " N/A ");
    assert_eq!(group(&fitted(&none, &h100()), "collectives").residuals.len(), 21);
    // What is below one byte for each rank is 0 bytes, and takes no time.
    let empty = "           0            0 float none -1 0.00 0.0 0.0 0 0.00 0.0 0.0 0\n# Out of";
    let empty = output.replace("# Out of", empty);
    assert_eq!(group(&fitted(&empty, &h100()), "collectives").residuals.len(), 22);
}

#[test]
fn a_log_above_csv_in_one_file_is_read_with_it() {
    let table = "kind,bytes,devices,measured_us\nall_gather,65536,8,12\npass,65536,,2\n";
    let text = format!("# all_gather_perf\n{}{table}", nccl_output());
    let fitted = fitted(&text, &h100());
    let links = group(&fitted, "collectives");
    assert_eq!(links.residuals.len(), 23, "{fitted}");
    assert_eq!(links.residuals[22].place, "bench.csv:26", "{fitted}");
    assert_eq!(group(&fitted, "passes").residuals.len(), 1, "{fitted}");
    let wrong = text.replace(" 6.21 ", " -6.21 ");
    assert!(calibrate(&[("bench.csv", &wrong)], &h100(), "mine").is_err());
}

#[test]
fn what_is_no_measurement_is_refused_with_what_to_type() {
    let head = "kind,dtype,m,n,k,bytes,devices,measured_us\n";
    let texts = [
        String::new(),
        "all went well\n".to_owned(),
        head.to_owned(),
        "kind,m,n,k\nproduct,1,1,1\n".to_owned(),
        format!("{head}product,bf16,4096,4096,,,,152\nproduct,bf15,8,8,8,,,0\n"),
        format!("{head}# a remark\nproduct,bf16,8,8,8,,,fast\nproduct,bf16,8,8,8,,,0\n"),
        format!("{head}all_gathr,,,,,1024,8,12\nall_gather,,,,,1024,1,12\npass,,,,,64,,\n"),
        format!("{head}product,bf16,8\n"),
        "kind,batch,queries,keys,heads,kv_heads,head_dim,measured_us\n\
         attention,1,64,128,8,8,128,12\nattention,1,64,64,8,3,128,12\n"
            .to_owned(),
        "kind,bytes,devices,nodes,measured_us\nall_reduce,1024,6,4,12\n".to_owned(),
        nccl_output(),
        nccl_output().replace("#  Rank", "# rank"),
        format!("# all_gather_perf\n{}", nccl_output().replacen(" 1.0 1.0 0\n", "\n", 1)),
    ];
    let refused = texts.iter().map(|text| {
        let findings = calibrate(&[("bench.csv", text)], &h100(), "mine").expect_err(text);
        assert!(findings.reports.iter().all(|report| report.diag.code == "SW412"), "{text}");
        assert!(findings.reports.iter().all(|report| report.diag.help.is_some()), "{text}");
        drawn(&findings)
    });
    insta::assert_snapshot!(refused.collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_is_given_twice_is_refused_and_what_is_quoted_or_blank_is_not() {
    for (text, message) in [
        ("kind,bytes,bytes,measured_us\npass,1024,64,2\n", "two columns are called `bytes`"),
        ("kind,bytes,measured_us,measured_s\npass,1024,2,3\n", "this row has two times"),
    ] {
        let findings = calibrate(&[("bench.csv", text)], &h100(), "mine").expect_err(text);
        assert_eq!(findings.to_string(), message);
    }
    let quoted = "\"kind\",\"bytes\",\"measured_us\"\n\"pass\",\"1024\",\"2\"\n";
    assert!(calibrate(&[("bench.csv", quoted)], &h100(), "mine").is_ok());
    let blank = "kind,bytes,measured_us,measured_s,,\npass,1024,2,,,\n";
    assert!(calibrate(&[("bench.csv", blank)], &h100(), "mine").is_ok());
}

#[test]
fn more_devices_in_one_node_than_a_node_has_are_refused() {
    let rows = |devices: u64, nodes: &str| {
        let head = "kind,bytes,devices,nodes,measured_us\n";
        [1024, 65_536, 1 << 24]
            .map(|bytes| format!("all_gather,{bytes},{devices},{nodes},{bytes}\n"))
            .iter()
            .fold(head.to_owned(), |text, row| text + row)
    };
    let rank = "#  Rank  2 Group  0 Pid   7 on node-1 device  2 [0000:43:00] NVIDIA H100\n";
    let output = format!("# all_gather_perf\n{}", nccl_output());
    let log = output.replace("# Using devices\n", &format!("# Using devices\n{}", rank.repeat(14)));
    for (text, devices, nodes, line) in [
        (rows(16, "1"), 16, 2, 2),
        (rows(12, ""), 12, 2, 2),
        (rows(11, ""), 11, 11, 2),
        (log, 16, 2, 25),
    ] {
        let findings = calibrate(&[("bench", &text)], &h100(), "mine").expect_err(&text);
        let [report] = &findings.reports[..] else { panic!("{findings}") };
        let message = format!("{devices} devices in one node, and a node of `h100` has 8 chips");
        assert_eq!((report.diag.code, &report.diag.message), ("SW412", &message));
        let help = report.diag.help.as_deref().unwrap_or_default();
        assert!(
            help.contains(&format!("`nodes={nodes}`")) && help.contains("--hardware"),
            "{help}"
        );
        assert!(drawn(&findings).contains(&format!("[bench:{line}:1]")), "{}", drawn(&findings));
    }
    let findings = calibrate(&[("bench", &rows(32, "2"))], &h100(), "mine").expect_err("16 each");
    let diag = &findings.reports[0].diag;
    assert_eq!(diag.message, "16 devices in each node, and a node of `h100` has 8 chips");
    assert!(diag.help.as_deref().unwrap_or_default().contains("`nodes=4`"), "{findings}");
    // Nodes of several, a larger node, and chips without nodes.
    let larger = hardware::parse("c.toml", "[c]\nbase = \"h100\"\npod = [16]\n").expect("a file");
    let torus = Hardware::preset("tpu-v5p").expect("a preset");
    for (text, chip) in
        [(rows(16, "2"), &h100()), (rows(16, ""), &larger[0]), (rows(16, ""), &torus)]
    {
        assert!(calibrate(&[("bench", &text)], chip, "mine").is_ok(), "{text}");
    }
}

#[test]
fn what_the_chip_lacks_is_reported_at_the_measurement() {
    let text = "kind,bytes,devices,nodes,measured_us\nall_reduce,1024,16,2,12\n";
    let bare = hardware::parse("bare.toml", "[bare]\nbf16 = 1e15\n").expect("a hardware file");
    let findings = calibrate(&[("bench.csv", text)], &bare[0], "mine").expect_err("no network");
    insta::assert_snapshot!(drawn(&findings));
}

#[test]
fn measurements_of_other_chips_and_noisy_ones_are_left_out() {
    let text = "chip,kind,bytes,measured_us,spread\n\
        h100,pass,1000000,2.5,0.01\nh100,pass,10000000,5.5,0.02\nh100,pass,100000000,36,0.02\n\
        h100,pass,1000000000,340,0.01\nh100,pass,50000000,90,0.9\nh100,pass,5000000,4,\n\
        h100,pass,5000000,9,\na100,pass,1000000000,900,0.01\n";
    let fitted = fitted(text, &h100());
    assert_eq!(fitted.of_other_chips, 1);
    let passes = group(&fitted, "passes");
    assert_eq!(passes.residuals.iter().filter(|row| row.left_out.is_some()).count(), 3);
    insta::assert_snapshot!(fitted);
}

#[test]
fn a_chip_that_beats_its_peak_is_reported() {
    let rows: String = [1e6, 1e7, 1e8, 1e9, 1e10]
        .map(|bytes| format!("pass,{bytes:.0},{}\n", 2.0 + bytes / 5e12 * 1e6))
        .concat();
    let fitted = fitted(&format!("kind,bytes,measured_us\n{rows}"), &h100());
    assert!(fitted.to_string().contains("at its limit"), "{fitted}");
}
