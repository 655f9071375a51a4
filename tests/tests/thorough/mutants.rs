//! Plans with one fault are detected: by `check`, which reads the text, or by `verify`, which runs
//! them.

use rayon::prelude::*;
use shardwise::verify::{Setup, execute};
use shardwise::{Options, Strategy};
use shardwise_tests::mutants::{Mutant, mutants};
use shardwise_tests::random::{draws, times};
use shardwise_tests::snapshot::snapshot;
use shardwise_tests::{files, random_program, read};

/// The number of mutants, and of those detected by each.
#[derive(Default)]
struct Score {
    mutants: usize,
    refused: usize,
    wrong: usize,
    /// Not detected.
    survivors: Vec<String>,
    /// Refused by `check`, but right when run.
    harmless: Vec<String>,
    /// Not detected, since the value that is read instead has the same numbers.
    equivalent: usize,
}

impl Score {
    fn add_all(&mut self, name: &str, source: &str, options: &Options) {
        let program = shardwise::check(name, source, options)
            .program
            .unwrap_or_else(|| panic!("{name}: {source}"));
        let Ok(planned) = shardwise::plan(name, source, options) else { return };
        for mutant in mutants(&planned.plan) {
            let explicit = Options { explicit: true, ..Options::default() };
            let refused =
                shardwise::check(name, &mutant.plan.to_string(), &explicit).findings.has_errors();
            let seeds: &[u64] = if mutant.other_value { &[1, 2, 3] } else { &[1] };
            let run = |&seed: &u64| {
                let setup = Setup { seed, samples: false, ..Setup::default() };
                execute(&program, &mutant.plan, &setup)
            };
            // Those too large to be run are not counted; the kept score shows how many are left.
            let Ok(verdicts) = seeds.iter().map(run).collect::<Result<Vec<_>, _>>() else {
                continue;
            };
            let wrong = verdicts.iter().any(|verdict| verdict.mismatch.is_some());
            self.add(name, &mutant, refused, wrong);
        }
    }

    fn add(&mut self, name: &str, mutant: &Mutant, refused: bool, wrong: bool) {
        self.mutants += 1;
        self.refused += usize::from(refused);
        self.wrong += usize::from(wrong);
        if refused && !wrong {
            self.harmless.push(format!("{name}: {}", mutant.what));
        }
        match (refused || wrong, mutant.other_value) {
            (true, _) => {}
            (false, true) => self.equivalent += 1,
            (false, false) => self.survivors.push(format!("{name}: {}", mutant.what)),
        }
    }

    /// That of both.
    fn and(mut self, other: Self) -> Self {
        self.mutants += other.mutants;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.equivalent += other.equivalent;
        self.survivors.extend(other.survivors);
        self.harmless.extend(other.harmless);
        self
    }

    /// Every mutant must be noticed, but for the few that read a value with the same numbers
    /// (`relu` of a square, `maximum(A, A)`).
    fn assert_all_noticed(&self) -> String {
        let Self { mutants, refused, wrong, equivalent, .. } = self;
        let score = format!(
            "{mutants} mutants: {refused} refused by check, {wrong} wrong when run, {equivalent} \
                read equal numbers"
        );
        assert!(
            self.survivors.is_empty(),
            "{score}; these by nobody:\n{}",
            self.survivors.join("\n")
        );
        assert!(equivalent * 300 <= *mutants, "{score}");
        score
    }
}

#[test]
fn mutants_of_the_plans_of_the_book_are_noticed() {
    let mut sources = files("tests/programs/book", ".shard");
    sources.push(("mlp-2d".to_owned(), read("tests/programs/mlp-2d.shard")));
    let mut score = Score::default();
    for (name, source) in sources {
        for strategy in [Strategy::Search, Strategy::Textbook] {
            score.add_all(&name, &source, &Options { strategy, ..Options::default() });
        }
    }
    let noticed = score.assert_all_noticed();
    // A softmax of what is not shifted first has the same numbers; it only overflows sooner.
    assert_eq!(
        score.wrong + score.equivalent,
        score.mutants,
        "running alone notices every one of them but\n{}",
        score.harmless.join("\n")
    );
    snapshot("mutants", "book", &noticed);
}

#[test]
fn mutants_of_random_plans_are_noticed() {
    let drawn: Vec<(usize, Vec<u32>)> = draws().take(20 * times()).enumerate().collect();
    let scored = drawn.par_iter().map(|(i, numbers)| {
        let source = random_program::program(numbers, 1 + i % 3, 1 + i % 5);
        let options = Options { memory: Some(f64::INFINITY), ..Options::default() };
        let mut score = Score::default();
        score.add_all(&format!("random {i}"), &source, &options);
        score
    });
    let score = scored.reduce(Score::default, Score::and);
    let noticed = score.assert_all_noticed();
    // What is kept is the score of as many programs as are usual.
    if times() == 1 {
        snapshot("mutants", "random", &noticed);
    }
}
