//! FLOPs, bytes and times of the models' programs against published figures.
//!
//! Parameters are in `programs.rs`, the book's own numbers in `book/`. FLOPs are those of a step
//! that computes nothing again and in which experts have no more slots than their share: a plan may
//! compute more.

use shardwise::cost::Cost;
use shardwise::inference::Sizing;
use shardwise::{DimSize, Options, Planned, Strategy};
use shardwise_tests::read;

fn options(dims: &[(&str, u64)]) -> Options {
    let dims = dims.iter().map(|&(name, size)| DimSize { name: name.to_owned(), size }).collect();
    Options {
        strategy: Strategy::Textbook,
        memory: Some(f64::INFINITY),
        dims,
        ..Options::default()
    }
}

fn cost(name: &str, dims: &[(&str, u64)]) -> Cost {
    let source = read(&format!("tests/programs/models/{name}.shard")).replace("  checkpoint\n", "");
    shardwise::plan(name, &source, &options(dims)).unwrap_or_else(|e| panic!("{name}: {e}")).cost()
}

fn near(what: &str, given: f64, published: f64, tolerance: f64) {
    assert!((given / published - 1.0).abs() < tolerance, "{what}: {given} against {published}");
}

/// A step's FLOPs for each of so many tokens, images or pairs.
fn flops(name: &str, dims: &[(&str, u64)], items: f64, published: f64, tolerance: f64) {
    near(name, cost(name, dims).flops / items, published, tolerance);
}

/// "Insights into DeepSeek-V3" (ISCA 2025), table 2: GFLOPs a token in training, sequences of 4096
/// tokens.
#[test]
fn flops_a_token_are_those_that_deepseek_compares() {
    flops("deepseek-v3-train", &[("Slots", 16)], 2048.0 * 4096.0, 250e9, 0.03);
    flops("llama3-405b-train", &[("T", 4096), ("S", 4096)], 2048.0 * 4096.0, 2448e9, 0.02);
}

/// Multiply-adds of a forward pass: 61.55e9 an image (torchvision), 175.33e9 FLOPs a pair of image
/// and text (`open_clip`); a step takes three of these.
#[test]
fn flops_of_images_are_those_of_their_libraries() {
    flops("vit-l16-train", &[], 4096.0, 3.0 * 2.0 * 61.55e9, 0.002);
    flops("clip-l14-train", &[], 32768.0, 3.0 * 175.33e9, 0.002);
}

/// Six a token and parameter that it meets (T4-6ND), as published for the 70B (A6-DAYS); attention,
/// at 4096 tokens, is the rest.
#[test]
fn flops_of_language_models_are_six_a_parameter_and_attention() {
    let (few, many) = (64.0 * 4096.0, 1024.0 * 4096.0);
    flops("llama3-8b-train", &[], few, 6.0 * 8.03e9, 0.06);
    flops("llama2-13b-train", &[], many, 6.0 * 13.0e9, 0.06);
    flops("llama3-70b-train", &[], many, 6.3e24 / 15e12, 0.04);
    flops("mixtral-8x7b-train", &[("Slots", 128)], 512.0 * 4096.0, 6.0 * 12.9e9, 0.04);
}

/// Two a token and parameter that it is multiplied with, and attention to 8192 tokens (4096 of the
/// 13B's prompts), half of them in a prefill. Tables are looked up; and of a prompt, the last token
/// alone is multiplied with the other one.
#[test]
fn flops_of_serving_are_two_a_parameter_and_attention() {
    for (name, dims, met, keys, table) in [
        ("llama2-13b-prefill", &[][..], 13.0e9, 40.0 * 5120.0 * 2048.0, 32000.0 * 5120.0),
        ("llama3-8b-prefill", &[], 8.03e9, 32.0 * 4096.0 * 4096.0, 128_256.0 * 4096.0),
        ("llama3-70b-prefill", &[], 70.6e9, 80.0 * 8192.0 * 4096.0, 128_256.0 * 8192.0),
        ("llama3-405b-prefill", &[], 405.9e9, 126.0 * 16384.0 * 4096.0, 128_256.0 * 16384.0),
        (
            "mixtral-8x7b-prefill",
            &[("Slots", 128)],
            12.9e9,
            32.0 * 4096.0 * 4096.0,
            32000.0 * 4096.0,
        ),
        ("llama2-13b-decode", &[], 13.0e9, 40.0 * 5120.0 * 8192.0, 32000.0 * 5120.0),
        ("llama3-70b-decode", &[], 70.6e9, 80.0 * 8192.0 * 8192.0, 128_256.0 * 8192.0),
        ("llama3-405b-decode", &[], 405.9e9, 126.0 * 16384.0 * 8192.0, 128_256.0 * 16384.0),
    ] {
        let cost = cost(name, dims);
        let tokens = cost.inference.as_ref().expect(name).step.tokens;
        let tables = if name.ends_with("prefill") { 2.0 } else { 1.0 };
        near(name, cost.flops / tokens, 2.0 * (met - tables * table) + 4.0 * keys, 0.02);
    }
}

/// Bytes of cache a token: "Insights into DeepSeek-V3", table 1, which has bf16; the 405B keeps fp8
/// here.
#[test]
fn caches_are_as_large_as_published() {
    let token = |name: &str| cost(name, &[]).inference.expect(name).cache.token_bytes;
    near("latents", token("deepseek-v3-decode"), 70_272.0, 1e-12);
    near("405B", 2.0 * token("llama3-405b-decode"), 516_096.0, 1e-12);
    // Two bytes, keys and values: key heads * 128 * layers.
    for (name, published) in [
        ("llama2-13b-decode", 819_200.0),
        ("llama3-8b-long-decode", 131_072.0),
        ("mixtral-8x7b-decode", 131_072.0),
    ] {
        near(name, token(name), published, 1e-12);
    }
}

fn deepseek() -> Planned {
    let source = read("tests/programs/models/deepseek-v3-decode.shard");
    shardwise::plan("deepseek-v3-decode", &source, &Options::default())
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Weights in a byte each, and a cache: what four nodes hold of DeepSeek-V3, and how long that
/// takes to read.
#[test]
fn a_step_of_deepseek_reads_its_latents_once() {
    let planned = deepseek();
    let cost = planned.cost();
    near("fp8", cost.parameters.bytes, 671e9, 0.01);
    near("caches", cost.state.bytes, 1024.0 * 8192.0 * 70_272.0, 1e-12);
    let step = cost.inference.expect("caches are read").step;
    let bandwidth = planned.plan.program.hardware.hbm_bandwidth.expect("it is known");
    near("read", step.attention_s, cost.state.device_bytes / bandwidth, 1e-12);
    // Of a weight that every chip has whole, a chip may read its part.
    assert!(step.parameters_s < cost.parameters.device_bytes / bandwidth, "{}", step.parameters_s);
    assert!(step.parameters_s > cost.parameters.bytes / 32.0 / bandwidth, "{}", step.parameters_s);
}

/// 44 days on 8960 chips at 40% of the peak (A6-DAYS): the plan, on 4096 of them, is faster than
/// that, and slower than the peak.
#[test]
fn training_takes_no_more_days_than_the_book_expects() {
    let name = "llama3-70b-train";
    let source = read(&format!("tests/programs/models/{name}.shard"));
    let planned =
        shardwise::plan(name, &source, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let steps = 15e12 / (1024.0 * 4096.0);
    let days = planned.json().cost.scheduled_s * steps * 4096.0 / 8960.0 / 86400.0;
    let published = shardwise_tests::facts::numbers("A6-DAYS")[0];
    assert!(days < published && days > 0.4 * published, "{days} against {published}");
}

/// A batch that is a product of groups and tokens grows by groups.
#[test]
fn batches_that_are_products_are_sized() {
    let planned = deepseek();
    let sizing = planned
        .inference(&Sizing { batches: vec![512, 1024, 1030], ..Sizing::default() })
        .expect("caches are read");
    assert_eq!((sizing.batch_dim.as_str(), sizing.step.batch), ("B", 1024));
    assert_eq!(sizing.batches[1], sizing.step);
    near("half", sizing.batches[0].attention_bytes, sizing.step.attention_bytes / 2.0, 1e-12);
    assert!(sizing.batches[2].device_bytes > sizing.step.device_bytes, "a group more");
    near("tokens", sizing.batches[2].tokens, 1030.0, 1e-12);
}
