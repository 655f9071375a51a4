//! Which figures `calibrate` fits: what measurements do not determine stays as the chip has it, and
//! no fit is worse than the chip's own figures.

use shardwise::calibrate::calibrate;
use shardwise::{Hardware, Options, Rates};
use shardwise_tests::planning::planned;

use super::calibrate::{fitted, group, h100};

/// Seconds of a program at the measured rates of a chip, which may be no preset.
fn planned_s(chip: &Hardware, program: &str) -> f64 {
    let own = Hardware { name: "own".to_owned(), ..chip.clone() };
    let options = Options { known: vec![own], rates: Some(Rates::Measured), ..Options::default() };
    planned(&format!("hardware own\n{program}"), &options).report.serial_s
}

/// Measurements of collectives over so many devices of one node, from 1 kB to `most` bytes: their
/// times on `chip`, off by at most the share `noise`.
fn collectives(chip: &Hardware, kinds: &[&str], most: u64, noise: f64) -> String {
    let mut text = String::from("kind,bytes,devices,measured_us\n");
    let mut uniform = 0.0_f64;
    for kind in kinds {
        let array = if *kind == "all_reduce" { "A: int8[N] {U_X}" } else { "A: int8[N_X]" };
        for devices in [2, 4, 8] {
            for bytes in (5..).map(|power| 4_u64.pow(power)).take_while(|bytes| *bytes <= most) {
                let program =
                    format!("mesh X={devices}\ndim N={bytes}\ninput {array}\noutput A[N]\n");
                // Multiples of the golden ratio without their whole part spread evenly.
                uniform = (uniform + 0.618_033_988_749_895).fract();
                let off = 1.0 + 2.0 * noise * (uniform - 0.5);
                let time_us = 1e6 * planned_s(chip, &program) * off;
                text += &format!("{kind},{bytes},{devices},{time_us:.2}\n");
            }
        }
    }
    text
}

/// The rows over so many devices.
fn over(devices: u64, text: &str) -> String {
    let devices = devices.to_string();
    let is_kept =
        |line: &&str| line.starts_with("kind") || line.split(',').nth(2) == Some(&devices);
    text.split_inclusive('\n').filter(is_kept).collect()
}

#[test]
fn nothing_changes_where_the_chip_has_the_measured_times() {
    let text = over(8, &collectives(&h100(), &["all_reduce"], 1 << 20, 0.0));
    let fitted = fitted(&text, &h100());
    assert_eq!(fitted.hardware.measured, h100().measured, "{fitted}");
    let links = group(&fitted, "collectives");
    assert!(links.figures.is_empty() && links.removed.is_empty(), "{fitted}");
    // Every figure is listed that the times depend on.
    let mut listed = [&links.undetermined[..], &links.kept[..]].concat();
    listed.sort_unstable();
    let all = ["link_fixed", "link_in_switch", "link_per_device", "link_saturation", "link_share"];
    assert_eq!(listed, all, "{fitted}");
    assert!(links.undetermined.contains(&"link_in_switch"), "{fitted}");
}

#[test]
fn a_share_of_the_switch_that_few_of_many_rows_show_is_found_in_noise() {
    let mut machine = h100();
    let link = &mut machine.measured.link;
    (link.share, link.in_switch, link.saturation_s) = (Some(0.7), Some(0.45), Some(8e-6));
    let kinds = [&["all_gather"; 12][..], &["all_reduce"]].concat();
    let text = collectives(&machine, &kinds, 1 << 32, 0.15);
    let fitted = fitted(&text, &h100());
    let share = fitted.hardware.measured.link.in_switch.unwrap_or_default();
    assert!((share / 0.45 - 1.0).abs() < 0.06, "{share}\n{fitted}");
    assert!(fitted.hardware_file().contains("link_in_switch = "), "{fitted}");
}

/// Collectives of a machine of which the chip's stated bandwidth is a third.
#[test]
fn what_beats_the_stated_bandwidth_is_fitted_and_not_left_out() {
    let text = over(8, &collectives(&h100(), &["all_gather"], 1 << 32, 0.0));
    for chip in ["trainium2", "tpu-v5p"] {
        let fitted = fitted(&text, &Hardware::preset(chip).expect("a preset"));
        let links = group(&fitted, "collectives");
        assert_eq!(links.fitted().count(), links.residuals.len(), "{fitted}");
        let share = fitted.hardware.measured.link.share.unwrap_or_default();
        assert!(share > 0.995 && fitted.to_string().contains("at its limit"), "{fitted}");
    }
}

#[test]
fn one_number_of_devices_does_not_tell_the_times_of_a_collective_apart() {
    let mut machine = h100();
    machine.measured.link.fixed_s = Some(6e-6);
    for kinds in [&["all_reduce"][..], &["all_gather"], &["all_gather", "all_reduce"]] {
        let text = over(8, &collectives(&machine, kinds, 1 << 32, 0.02));
        let fitted = fitted(&text, &h100());
        let links = group(&fitted, "collectives");
        assert!(links.undetermined.contains(&"link_per_device"), "{fitted}");
        let fixed_s = fitted.hardware.measured.link.fixed_s.unwrap_or_default();
        assert!((fixed_s / 6e-6 - 1.0).abs() < 0.05, "{fixed_s}\n{fitted}");
    }
}

#[test]
fn a_switch_that_does_not_reduce_is_reported_as_left_out() {
    let mut machine = h100();
    (machine.measured.link.share, machine.measured.link.in_switch) = (Some(0.7), None);
    let text = collectives(&machine, &["all_gather", "all_reduce"], 1 << 32, 0.02);
    let fitted = fitted(&text, &h100());
    assert_eq!(fitted.hardware.measured.link.in_switch, None, "{fitted}");
    assert_eq!(group(&fitted, "collectives").removed, ["link_in_switch"], "{fitted}");
    assert!(fitted.to_string().contains("left out of the file: link_in_switch"), "{fitted}");
}

#[test]
fn products_of_fp8_have_a_share_of_the_bandwidth_of_their_own() {
    let mut machine = h100();
    let rates = &mut machine.measured;
    (rates.product_memory, rates.product_fp8_memory) = (Some(0.7), Some(0.5));
    let product = |dtype: &str, m: u64, edge: u64| {
        format!(
            "mesh X=1\ndim M={m}, N={edge}, K={edge}\ninput A: {dtype}[M, K]\n\
             param B: {dtype}[K, N]\nC = A *K B\noutput C[M, N]\n"
        )
    };
    let (mut text, mut of_bf16) = (String::from("kind,dtype,m,n,k,measured_us\n"), 0);
    for dtype in ["bf16", "fp8"] {
        for edge in [1024, 2048, 4096, 8192] {
            for m in [1, 16, 128, edge] {
                let time_us = 1e6 * planned_s(&machine, &product(dtype, m, edge));
                text += &format!("product,{dtype},{m},{edge},{edge},{time_us:.4}\n");
            }
        }
        of_bf16 = if dtype == "bf16" { text.len() } else { of_bf16 };
    }
    let near = |found: Option<f64>, wanted: f64| (found.unwrap_or_default() - wanted).abs() < 0.01;
    let both = fitted(&text, &h100());
    let rates = both.hardware.measured;
    assert!(near(rates.product_memory, 0.7) && near(rates.product_fp8_memory, 0.5), "{both}");
    // A plan with weights meets the measured time.
    let served = product("fp8", 1, 8192);
    let off = planned_s(&both.hardware, &served) / planned_s(&machine, &served) - 1.0;
    assert!(off.abs() < 0.02, "{off}\n{both}");
    // Rows of one dtype leave the share of the other.
    let rates = fitted(&text[..of_bf16], &h100()).hardware.measured;
    assert_eq!(rates.product_fp8_memory, h100().measured.product_fp8_memory);
    let head = "kind,dtype,m,n,k,measured_us\n";
    let of_fp8 = fitted(&format!("{head}{}", &text[of_bf16..]), &h100());
    assert_eq!(of_fp8.hardware.measured.product_memory, h100().measured.product_memory);
    assert!(near(of_fp8.hardware.measured.product_fp8_memory, 0.5), "{of_fp8}");
}

/// The error of measurements of which all are in another unit, and the line that it names.
#[test]
fn times_in_another_unit_are_an_error_that_names_it() {
    let products = "product,4096,4096,4096,200\nproduct,8192,8192,8192,1500\n";
    let head = "kind,m,n,k,measured";
    let links: String = [20, 24, 28, 32]
        .map(|power| format!("all_gather,{},8,{}\n", 1_u64 << power, 12.0 + 2f64.powi(power) / 4e5))
        .concat();
    for (text, unit) in [
        (format!("{head}_s\n{products}"), "are microseconds, call their column `measured_us`"),
        (format!("kind,bytes,devices,measured_s\n{links}"), "call their column `measured_us`"),
        (format!("{head}_us\nproduct,4096,4096,4096,0.0002\n"), "call their column `measured_s`"),
        (format!("{head}_us\nproduct,4096,4096,4096,0.2\n"), "milliseconds, write 1000 times"),
        (format!("{head}_us\nproduct,4000000000,4000000000,4000000000,200\n"), "check its sizes"),
    ] {
        let findings = calibrate(&[("bench.csv", &text)], &h100(), "mine").expect_err(&text);
        let [report] = &findings.reports[..] else { panic!("{findings}") };
        assert_eq!(report.diag.code, "SW412");
        assert!(report.diag.message.contains("no rates explain"), "{findings}");
        assert!(report.diag.help.as_deref().unwrap_or_default().contains(unit), "{findings}");
        assert_eq!(text[..report.diag.labels[0].span.start].lines().count(), 1, "{findings}");
    }
}

#[test]
fn rows_that_no_rates_explain_are_left_out_of_the_others() {
    let good = "product,4096,4096,4096,200\nproduct,8192,8192,8192,1550\n\
        product,2048,4096,4096,101\nproduct,1,4096,4096,17\n";
    let head = "kind,m,n,k,measured_us\n";
    let bad = "product,4096,4096,4096,1\nproduct,4096,4096,4096,9e9\n";
    let both = fitted(&format!("{head}{good}{bad}"), &h100());
    assert_eq!(both.hardware.measured, fitted(&format!("{head}{good}"), &h100()).hardware.measured);
    let text = both.to_string();
    assert!(text.contains("4 measurements, off by"), "{text}");
    assert!(text.contains("are the shortest") && text.contains("are the longest"), "{text}");
    let noisy = "kind,bytes,measured_us,spread\npass,1000000,2.5,0.9\n";
    let findings =
        calibrate(&[("bench.csv", noisy)], &h100(), "mine").expect_err("nothing is left");
    assert!(findings.to_string().contains("every measurement is left out"), "{findings}");
}
