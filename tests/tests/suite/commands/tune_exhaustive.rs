//! `tune` in small spaces within memory: whatever the search has excluded, its rows are those of
//! exhaustive enumeration, and `plan` makes the same plan of the winner.

use shardwise::options::{AxisParts, Grouping};
use shardwise::tune::{Request, Tuned, tune};
use shardwise::{Options, plan};
use shardwise_tests::random::{Dice, numbers_of_case};

/// Layers of an MLP in training.
fn layers(batch: u64, width: u64) -> String {
    let hidden = 4 * width;
    format!(
        "hardware h100\ndim B={batch}, D={width}, F={hidden}\ninput x[B, D], dy[B, D]\n\
            repeat L=4 {{\n  carry x\n  param win[D, F], wout[F, D]\n  \
            x = x + gelu(x *D win) *F wout\n}}\nbackward from x given dy\n"
    )
}

fn limited(bytes: f64) -> Options {
    Options { memory: Some(bytes), ..Options::default() }
}

/// Nothing if no strategy fits.
fn tuned(source: &str, request: &Request, options: &Options) -> Option<Tuned> {
    tune("program", source, request, options, &|_| ()).ok()
}

/// The rows of an enumeration are found; returns whether there are any.
fn is_enumeration(source: &str, request: &Request, options: &Options) -> bool {
    let every = Request { exhaustive: true, ..request.clone() };
    let found = tuned(source, request, options);
    let every = tuned(source, &every, options);
    let times = |tuned: &Option<Tuned>| {
        let rows = tuned.iter().flat_map(|tuned| &tuned.strategies);
        rows.map(|of| of.objective_s).collect::<Vec<f64>>()
    };
    let (own, other) = (times(&found), times(&every));
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-8 * b;
    let are_same = own.len() == other.len() && own.iter().zip(&other).all(near);
    assert!(are_same, "{own:?} {other:?}\n{request:?} {:?}\n{source}", options.memory);
    let Some(found) = found else { return false };
    assert!(found.lower_bound_s <= other[0]);
    let as_written =
        Options { parts: AxisParts::AsWritten, grouping: Grouping::AsWritten, ..options.clone() };
    let planned = plan("winner", &found.winner, &as_written);
    let planned = planned.unwrap_or_else(|no| panic!("{no}\n{}", found.winner));
    assert_eq!(planned.report.serial_s.to_bits(), own[0].to_bits(), "{}", found.winner);
    true
}

/// Below the best so far the search within memory finds no plan of the winner, which without a
/// goal is found.
#[test]
fn what_is_found_before_does_not_change_what_a_candidate_takes() {
    let request = Request {
        stages: vec![2, 4],
        chunks: vec![1, 2],
        microbatches: vec![4, 8],
        best: 1,
        ..Request::of_chips(8)
    };
    assert!(is_enumeration(&layers(65536, 1024), &request, &limited(120e6)));
}

#[test]
fn random_small_spaces_are_those_of_enumeration() {
    let mut fit = 0;
    for case in 0..12 {
        let numbers = numbers_of_case(case);
        let mut dice = Dice::new(&numbers);
        let source = layers(*dice.pick(&[4096, 16384, 65536]), *dice.pick(&[512, 1024]));
        let request = Request {
            stages: dice.pick(&[vec![2], vec![2, 4], vec![4]]).clone(),
            chunks: dice.pick(&[vec![1], vec![1, 2]]).clone(),
            microbatches: dice.pick(&[vec![4], vec![4, 8]]).clone(),
            best: *dice.pick(&[1, 2]),
            ..Request::of_chips(*dice.pick(&[4, 8]))
        };
        let free = tuned(&source, &request, &limited(f64::INFINITY)).expect("it is legal");
        let share = *dice.pick(&[0.9, 0.8, 0.7, 0.6]);
        let options = limited(share * free.strategies[0].peak_bytes);
        fit += usize::from(is_enumeration(&source, &request, &options));
    }
    assert!(fit > 4, "limits of memory leave something: {fit}");
}
