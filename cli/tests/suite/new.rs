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
    assert!(listed.contains("shardwise new --from-hf config.json"), "{listed}");
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
fn a_configuration_is_a_template_as_import_writes_it() {
    let folder = empty_folder("new-hf");
    let config = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
        "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_hidden_layers": 32, "vocab_size": 128256, "model_type": "llama"}"#;
    std::fs::write(folder.join("config.json"), config).expect("it can be written");
    let new = ["new", "--from-hf", "config.json", "-o", "model.shard"];
    let written = run_in(&folder, &new, "");
    assert!(written.status.success(), "{}", text(&written.stderr));
    let model = std::fs::read_to_string(folder.join("model.shard")).expect("it was written");
    assert_eq!(model, text(&run_in(&folder, &["import", "hf", "config.json"], "").stdout));
    assert!(model.contains("backward from"), "{model}");
    assert_eq!(run_in(&folder, &new, "").status.code(), Some(2), "it is there already");
    let both = run_in(&folder, &["new", "mlp", "--from-hf", "config.json"], "");
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn an_unknown_template_is_answered_with_those_that_there_are() {
    for (name, tip) in [("mpl", "there are mlp, "), ("from-hf", "`shardwise new --from-hf ")] {
        let refused = run(&["new", name], "");
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(tip), "{}", text(&refused.stderr));
    }
}
