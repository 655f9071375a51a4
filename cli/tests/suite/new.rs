//! `new`: every template is listed, free of findings, planned and right; files are not overwritten.

use crate::common::{empty_folder, text};
use crate::{run, run_in};
use shardwise::templates::TEMPLATES;

#[test]
fn every_template_is_listed() {
    let listed = text(&run(&["new"], "").stdout);
    let names = listed.lines().map_while(|line| line.split_whitespace().next());
    let expected: Vec<&str> = TEMPLATES.iter().map(|template| template.name).collect();
    assert_eq!(names.collect::<Vec<_>>(), expected);
    assert!(listed.contains("shardwise import hf config.json"), "{listed}");
}

#[test]
fn every_template_is_formatted_and_has_no_findings() {
    for template in TEMPLATES {
        let printed = run(&["new", template.name], "");
        assert_eq!(text(&printed.stdout), template.text);
        let formatted = run(&["fmt", "--check", "-"], template.text);
        assert!(formatted.status.success(), "{}: {}", template.name, text(&formatted.stderr));
        let checked = run(&["check", "--deny-warnings", "-"], template.text);
        assert!(checked.status.success(), "{}: {}", template.name, text(&checked.stdout));
    }
}

#[test]
fn every_template_has_a_plan_that_computes_what_it_says() {
    for template in TEMPLATES {
        let verified = run(&["verify", "-"], template.text);
        let printed = text(&verified.stdout) + &text(&verified.stderr);
        assert!(verified.status.success(), "{}: {printed}", template.name);
        assert!(printed.contains("(search): right: "), "{}: {printed}", template.name);
    }
}

#[test]
fn a_template_is_written_to_a_new_file_only() {
    let folder = empty_folder("new");
    let written = run_in(&folder, &["new", "mlp", "-o", "mlp.shard"], "");
    assert!(written.status.success() && written.stdout.is_empty(), "{}", text(&written.stderr));
    let again = run_in(&folder, &["new", "moe", "-o", "mlp.shard"], "");
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("`mlp.shard` exists"), "{}", text(&again.stderr));
    let kept = std::fs::read_to_string(folder.join("mlp.shard")).expect("it was written");
    assert_eq!(kept, TEMPLATES[0].text);
}

#[test]
fn an_unknown_template_is_answered_with_those_that_there_are() {
    for (name, tip) in [("mpl", "there are mlp, "), ("from-hf", "`shardwise import hf ")] {
        let refused = run(&["new", name], "");
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(tip), "{}", text(&refused.stderr));
    }
}
