//! Collectives in chunks beside products, against a simulation of every chunk.

use proptest::prelude::{TestCaseError, prop_assert, prop_assert_eq};
use shardwise::{Collectives, Objective, Options, Planned, Strategy};
use shardwise_ir::dtype::DType;
use shardwise_tests::planning::planned;
use shardwise_tests::random::for_all;
use shardwise_tests::{close, files};

const CASES: u32 = 64;

fn under(source: &str, collectives: Collectives) -> Planned {
    let (memory, collectives) = (Some(f64::INFINITY), Some(collectives));
    let strategy = Strategy::Textbook;
    planned(source, &Options { memory, collectives, strategy, ..Options::default() })
}

/// A product of `B x D` and `D x F` on so many devices, of which each has these sizes.
struct Product {
    devices: u32,
    rows: f64,
    inner: f64,
    columns: f64,
}

impl Product {
    /// Seconds of one of the chunks that split the rows: the longer of arithmetic and traffic.
    fn chunk_s(&self, of: &Planned) -> f64 {
        let hardware = &of.plan.program.hardware;
        let rows = self.rows / f64::from(self.devices);
        let flops = 2.0 * rows * self.inner * self.columns;
        let elements = rows * self.inner + self.inner * self.columns + rows * self.columns;
        let bandwidth = hardware.hbm_bandwidth.expect("a preset has it");
        (flops / hardware.peak_flops(DType::Bf16)).max(2.0 * elements / bandwidth)
    }

    /// The parts of a gather arrive one after another, the own one at once; each is multiplied when
    /// it is there and the one before is done.
    fn after_gather_s(&self, gather_s: f64, chunk_s: f64) -> f64 {
        let arrives = |part: u32| gather_s * f64::from(part) / f64::from(self.devices - 1);
        (0..self.devices).fold(0.0, |end: f64, part| end.max(arrives(part)) + chunk_s)
    }

    /// The parts of a result are sent one after another, each after it is computed; the last one
    /// stays.
    fn before_scatter_s(&self, scatter_s: f64, chunk_s: f64) -> f64 {
        let hop_s = scatter_s / f64::from(self.devices - 1);
        let computed = |part: u32| chunk_s * f64::from(part);
        let sent = (1..self.devices).fold(0.0, |end: f64, part| end.max(computed(part)) + hop_s);
        sent.max(computed(self.devices))
    }
}

/// The schedule of two steps ends as `by_chunk` says, or as one step after the other.
fn ends(
    source: &str,
    product: &Product,
    by_chunk: fn(&Product, f64, f64) -> f64,
) -> Result<(), TestCaseError> {
    let (whole, chunked) = (under(source, Collectives::Whole), under(source, Collectives::Chunked));
    prop_assert_eq!(whole.plan.steps.len(), 2, "{}", source);
    let seconds = |planned: &Planned, step: usize| planned.report.steps[step].seconds;
    (0..2).for_each(|step| assert!(close(seconds(&whole, step), seconds(&chunked, step))));
    let is_collective = |step: &usize| whole.report.steps[*step].is_move(&whole.plan.steps[*step]);
    let collective = (0..2).find(is_collective).expect("one of them");
    let wanted_s = by_chunk(product, seconds(&whole, collective), product.chunk_s(&whole));
    let wanted_s = wanted_s.min(whole.report.serial_s);
    let found_s = chunked.report.schedule.makespan_s;
    prop_assert!(close(found_s, wanted_s), "{source}: {found_s}, by chunks {wanted_s}");
    Ok(())
}

/// Products of random sizes on 2 to 16 devices, by the number of devices and the sizes.
fn for_products(check: impl Fn(u32, [u64; 3]) -> Result<(), TestCaseError>) {
    let sizes = (1_u32..=4, 1_u64..=64, 1_u64..=64, 1_u64..=64);
    for_all(CASES, &sizes, |(ways, rows, inner, columns)| {
        check(1 << ways, [rows, inner, columns].map(|size| size * 256))
    });
}

#[test]
fn a_gather_ends_as_its_chunks_do() {
    for_products(|devices, [rows, inner, columns]| {
        let source = format!(
            "hardware h100\nmesh X={devices}\ndim B={rows}, D={inner}, F={columns}\n\
             input A[B_X, D], W[D, F_X]\nG[B, D] = AllGather_X(A)\n\
             C[B, F_X] = G *D W\noutput C[B, F_X]\n"
        );
        let columns = columns as f64 / f64::from(devices);
        let product = Product { devices, rows: rows as f64, inner: inner as f64, columns };
        ends(&source, &product, Product::after_gather_s)
    });
}

#[test]
fn sums_are_sent_as_their_chunks_are_computed() {
    for_products(|devices, [rows, inner, columns]| {
        let source = format!(
            "hardware h100\nmesh X={devices}\ndim B={rows}, D={inner}, F={columns}\n\
             input A[B, D_X], W[D_X, F]\nP[B, F] {{U_X}} = A *D W\n\
             C[B_X, F] = ReduceScatter_{{X,B}}(P)\noutput C[B_X, F]\n"
        );
        let inner = inner as f64 / f64::from(devices);
        let product = Product { devices, rows: rows as f64, inner, columns: columns as f64 };
        ends(&source, &product, Product::before_scatter_s)
    });
}

#[test]
fn chunks_that_take_longer_are_not_made() {
    // At measured rates a kernel takes some time however small it is: 64 of them more than the
    // gather.
    let source = "hardware h100\nmesh X=64\ndim B=4096, D=256, F=16384\n\
        input A[B_X, D]\ninput W[D, F_X]\nC[B, F_X] = A *D W\noutput C[B, F_X]\n";
    let source = source.replace("h100", "h100, rates=measured");
    let makespan_s = |collectives| under(&source, collectives).report.schedule.makespan_s;
    let (whole_s, chunked_s) = (makespan_s(Collectives::Whole), makespan_s(Collectives::Chunked));
    assert!(close(whole_s, chunked_s), "{whole_s} {chunked_s}");
}

#[test]
fn chunks_make_no_schedule_longer() {
    let (mut shorter, mut all) = (0, 0);
    for (name, source) in files("tests/programs/book", "shard") {
        let of = |collectives| under(&source, collectives).report;
        let (whole, chunked) = (of(Collectives::Whole), of(Collectives::Chunked));
        assert!(close(whole.serial_s, chunked.serial_s), "{name}: another sum");
        let (whole_s, chunked_s) = (whole.schedule.makespan_s, chunked.schedule.makespan_s);
        assert!(chunked_s <= whole_s * (1.0 + 1e-9), "{name}: {chunked_s} for {whole_s}");
        shorter += u32::from(chunked_s < whole_s * (1.0 - 1e-9));
        all += 1;
    }
    assert!(shorter > 5, "of {all} programs {shorter} have shorter schedules");
}

#[test]
fn the_shortest_schedule_is_found_with_chunks() {
    for (name, source) in files("tests/programs/book", "shard") {
        let of = |objective| {
            let collectives = Some(Collectives::Chunked);
            let options = Options { objective, collectives, ..Options::default() };
            planned(&source, &options)
        };
        let (shortest, cheapest) = (of(Objective::Scheduled), of(Objective::Serial));
        let (shortest_s, cheapest_s) =
            (shortest.report.schedule.makespan_s, cheapest.report.schedule.makespan_s);
        assert!(shortest_s <= cheapest_s * (1.0 + 1e-9), "{name}: {shortest_s} for {cheapest_s}");
    }
}
