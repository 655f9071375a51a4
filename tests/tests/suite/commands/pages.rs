//! `--format html` of `cost`, `diff`, `sweep` and `tune`: pages with the rows of the text, which
//! escape what they are filled with.

use shardwise::inference::Sizing;
use shardwise::sweep::{Grid, Source, sweep};
use shardwise::tune::{Request, tune};
use shardwise::{Options, plan, templates};

const MLP: &str = "hardware tpu-v5e\nmesh X=4\ndim B=4096, D=4096, F=16384\ninput In[B_?, D_?]\n\
    param Win[D_?, F_?], Wout[F_?, D_?]\nH = gelu(In *D Win)\noutput Out[B_?, D_?] = H *F Wout\n";

/// What a format of a table writes.
fn html<T: ?Sized>(formats: &[shardwise::export::Format<T>], of: &T) -> String {
    let format = formats.iter().find(|format| format.name == "html").expect("there is the format");
    let page = (format.write)(of).expect("it is written");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("default-src 'none'"));
    page
}

#[test]
fn a_cost_page_has_every_statement() {
    let program = templates::find("mlp").expect("there is the template").text;
    let planned = plan("<mlp>", program, &Options::default()).expect("it has a plan");
    let page = planned.cost_html(&Sizing::default()).expect("it is written");
    for statement in planned.cost().statements {
        let text = statement.text.replace('<', "&#60;");
        assert!(page.contains(&format!("<code>{text}</code>")), "{text}");
    }
    assert!(page.contains("<h1>&#60;mlp&#62;</h1>") && page.contains("<td><code>B</code></td>"));
}

#[test]
fn a_difference_has_its_totals_and_steps() {
    let program = templates::find("mlp").expect("there is the template").text;
    let other = program.replace("Out[B_X, D]", "Out[B, D]");
    let planned =
        |name: &str, text: &str| plan(name, text, &Options::default()).expect("it has a plan");
    let diff = shardwise::diff(&planned("before", program), &planned("after", &other));
    let page = html(shardwise::diff::FORMATS, &diff);
    assert!(page.contains("before -&#62; after") && page.contains("<td>changed</td>"));
    assert!(page.contains("<code>Out[B, D] = AllReduce_X(Out[B, D] {U_X})</code>"));
    assert_eq!(page.matches("<tr").count(), 2 + diff.totals.len() + diff.changed.len());
}

#[test]
fn a_sweep_has_a_row_a_point_and_marks_the_best() {
    let source = Source { path: "mlp".to_owned(), name: "mlp".to_owned(), text: MLP.to_owned() };
    let grid = Grid::parse(&["X=4|16|3".to_owned()], &[], &[]).expect("a grid");
    let swept = sweep(&[source], &grid, &Options::default(), &|_, _| ());
    let swept = swept.unwrap_or_else(|refused| panic!("{refused:?}"));
    let page = html(shardwise::sweep::FORMATS, &swept);
    assert_eq!(page.matches("<tr").count(), 1 + 3);
    assert_eq!(page.matches("<tr class=\"marked\">").count(), 1);
    let reason = swept.points.iter().find_map(|point| point.infeasible.as_deref());
    assert!(reason.is_none_or(|reason| page.contains("1 without a plan") && !reason.is_empty()));
    let svg = swept.svg().expect("it is drawn");
    assert!(svg.starts_with("<svg") && svg.contains("X=16"), "{svg}");
}

#[test]
fn a_tuning_has_its_strategies_and_the_winner() {
    let program = "hardware h100\ndim B=4096, D=4096, F=16384\ninput x[B, D]\n\
        param win[D, F], wout[F, D]\noutput y[B, D] = gelu(x *D win) *F wout\n";
    let tuned = tune("mlp", program, &Request::of_chips(8), &Options::default(), &|_| ());
    let tuned = tuned.unwrap_or_else(|refused| panic!("{refused:?}"));
    let page = html(shardwise::tune::FORMATS, &tuned);
    assert_eq!(page.matches("<tr").count(), 1 + tuned.strategies.len());
    assert!(page.contains("mlp on 8 chips of h100") && page.contains("<pre tabindex=\"0\">plan\n"));
}
