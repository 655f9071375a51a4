//! Sweeps: planned points, infeasible points with their reasons, and the book's figure of the MLP's
//! batch sizes as numbers.

use shardwise::sweep::{Grid, Point, Source, Swept, sweep};
use shardwise::{Options, Strategy};
use shardwise_tests::read;

fn source(path: &str) -> Source {
    let name = path
        .rsplit('/')
        .next()
        .and_then(|file| file.strip_suffix(".shard"))
        .unwrap_or(path)
        .to_owned();
    Source { path: path.to_owned(), name, text: read(path) }
}

fn swept(paths: &[&str], meshes: &[&str], dims: &[&str], strategy: Strategy) -> Swept {
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
    let grid =
        Grid::parse(&owned(meshes), &owned(dims), &[]).unwrap_or_else(|error| panic!("{error}"));
    let sources: Vec<Source> = paths.iter().map(|path| source(path)).collect();
    sweep(&sources, &grid, &Options { strategy, ..Options::default() }, &|_, _| ())
        .unwrap_or_else(|refused| panic!("{refused:?}"))
}

/// The figure: FSDP, tensor parallelism and their mix on `chips` chips.
fn figure(chips: u64, dims: &str) -> Swept {
    let paths = [
        "tests/programs/sweep/fsdp.shard",
        "tests/programs/sweep/tp.shard",
        "tests/programs/sweep/mixed.shard",
    ];
    let meshes = [format!("X={chips}"), format!("Y={chips}"), format!("X*Y={chips}")];
    swept(&paths, &meshes.each_ref().map(String::as_str), &[dims], Strategy::Textbook)
}

fn by_compute(point: &Point) -> bool {
    point.plan.as_ref().is_some_and(|plan| plan.cost.links_s <= plan.cost.compute_s)
}

fn batch(point: &Point) -> u64 {
    point.sizes[0].size
}

/// The smallest batch from which on some point of `wanted` is compute-bound at every size.
fn crossovers(swept: &Swept, wanted: impl Fn(&Point) -> bool) -> Option<u64> {
    let mut batches: Vec<u64> = swept.points.iter().map(batch).collect();
    batches.dedup();
    let bound = |size: u64| {
        swept.points.iter().any(|point| batch(point) == size && wanted(point) && by_compute(point))
    };
    let last = batches.iter().rposition(|&size| !bound(size));
    batches.get(last.map_or(0, |last| last + 1)).copied()
}

#[test]
fn fsdp_is_compute_bound_from_850_tokens_a_chip() {
    // A multiple of 64 chips below and above 850 tokens each.
    for chips in [64, 4096] {
        let sizes = format!("B={}|{}|{}", 849 * chips, 850 * chips, 851 * chips);
        let swept = figure(chips, &sizes);
        let fsdp: Vec<bool> =
            swept.points.iter().filter(|point| point.program == "fsdp").map(by_compute).collect();
        assert_eq!(fsdp, [false, true, true], "2550/3 tokens a chip");
    }
}

#[test]
fn tensor_parallelism_alone_is_never_compute_bound_on_64_chips() {
    let swept = figure(64, "B=1e4..1e6/5");
    assert!(
        swept.points.iter().filter(|point| point.program == "tp").all(|point| !by_compute(point))
    );
}

#[test]
fn the_mix_is_compute_bound_where_the_others_are_not() {
    let swept = figure(4096, "B=1e5..1e7/120");
    let mixed = crossovers(&swept, |point| point.program == "mixed").expect("it crosses over");
    let fsdp = crossovers(&swept, |point| point.program == "fsdp").expect("it crosses over");
    // 2550/2 tokens for each of X=512 (Y=8 is the largest Y below F/2550): the caption's "below
    // 6e5".
    assert!((652_800..700_000).contains(&mixed), "{mixed}");
    assert!((3_481_600..3_700_000).contains(&fsdp), "{fsdp}");
}

#[test]
fn the_best_split_is_the_power_of_two_next_to_the_optimum() {
    for (batch, wanted) in [(48_000_u64, 16), (12_032, 8), (196_608, 32)] {
        let swept = swept(
            &["tests/programs/sweep/mixed.shard"],
            &["X*Y=64"],
            &[&format!("B={batch}")],
            Strategy::Textbook,
        );
        let links =
            |point: &&Point| point.plan.as_ref().map_or(f64::INFINITY, |plan| plan.cost.links_s);
        let best = swept
            .points
            .iter()
            .min_by(|a, b| links(a).total_cmp(&links(b)))
            .and_then(|point| point.plan.as_ref())
            .expect("a plan");
        assert_eq!(best.axes[0].size, wanted, "B={batch}: sqrt(B/F * 2 * 64)");
    }
}

#[test]
fn an_infeasible_point_is_a_row_that_says_why() {
    let swept = swept(
        &["tests/programs/sweep/mixed.shard"],
        &["X=16,Y=4", "X=2 over 2,Y=32"],
        &["B=65536"],
        Strategy::Textbook,
    );
    let reasons: Vec<&str> =
        swept.points.iter().filter_map(|point| point.infeasible.as_deref()).collect();
    assert_eq!(reasons, ["axis `X` of 2 does not fold over `2`"]);
    assert!(swept.points.iter().all(|point| point.plan.is_some() != point.infeasible.is_some()));
}

#[test]
fn equal_points_are_planned_once() {
    let swept = swept(
        &["tests/programs/sweep/mixed.shard"],
        &["X*Y=64", "X=16,Y=4"],
        &["B=65536|65536"],
        Strategy::Textbook,
    );
    assert_eq!((swept.points.len(), swept.planned), (7, 7));
}

#[test]
fn every_size_of_a_range_is_feasible() {
    let swept =
        swept(&["tests/programs/fsdp_tp.shard"], &["X*Y=16"], &["B=1..1e5/20"], Strategy::Textbook);
    let indivisible = swept
        .points
        .iter()
        .filter_map(|point| point.infeasible.as_deref())
        .find(|reason| reason.contains("`B`"));
    assert_eq!(indivisible, None);
}
