//! The page about accuracy, in the cases that are quickly predicted: its other ones are those of
//! the target `accuracy`. The command's table of error bars has the figures of the page.

use shardwise::accuracy::Group;
use shardwise_tests::measured::{lines, predict, time_cases};
use shardwise_tests::read;

const QUICK: [Group; 2] = [Group::Collectives, Group::Kernels];

#[test]
fn single_kernels_and_collectives_are_predicted_as_the_page_says() {
    let cases = time_cases().into_iter().filter(|case| QUICK.contains(&case.group));
    let times: Vec<_> = cases.map(|case| predict(&case)).collect();
    let page = read("compiler/docs/accuracy.md");
    for line in lines(&times, Vec::new()) {
        assert!(page.contains(&line.row()), "compiler/docs/accuracy.md should say\n{}", line.row());
    }
}

#[test]
fn the_table_of_error_bars_is_that_of_the_page() {
    let page = read("compiler/docs/accuracy.md");
    for (group, title) in [(Group::Training, "Training steps"), (Group::Decode, "Decode")] {
        let row = page.lines().find(|line| line.starts_with(&format!("| {title} |")));
        let cells: Vec<&str> = row.expect("a row").split('|').map(str::trim).collect();
        let errors = group.accuracy();
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        assert_eq!(cells[2], errors.cases.to_string());
        assert_eq!([cells[4], cells[5]], [percent(errors.mean), percent(errors.median)]);
    }
}
