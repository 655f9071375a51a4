//! `plan --format html`: a page that stands alone, whatever the program contains. How it looks and
//! answers in a browser is tested in `cli/tests/tools/report.rs`.

use shardwise::export::FORMATS;
use shardwise::{Options, Strategy, plan, templates};

fn page(name: &str, program: &str, options: &Options) -> String {
    let planned = plan(name, program, options).expect("it has a plan");
    let format = FORMATS.iter().find(|format| format.name == "html").expect("there is the format");
    (format.write)(&planned).expect("it is written")
}

fn template(name: &str) -> &'static str {
    templates::find(name).expect("there is the template").text
}

/// The part of the page that a panel is.
fn panel<'p>(page: &'p str, id: &str) -> &'p str {
    let start = page.find(&format!("<section id=\"{id}\"")).expect("there is the panel");
    let end = page[start..].find("</section>").expect("it ends");
    &page[start..start + end]
}

/// The data of the page.
fn data(page: &str) -> serde_json::Value {
    let start = page.find("id=\"data\">").expect("there is data") + "id=\"data\">".len();
    let end = page[start..].find("</script>").expect("it ends");
    serde_json::from_str(&page[start..start + end]).expect("it is JSON")
}

#[test]
fn a_page_has_every_panel_and_names_no_other_place() {
    let page = page("pipeline", template("pipeline"), &Options::default());
    let panels = [
        "summary", "plan", "timeline", "memory", "arrays", "graph", "roofline", "textbook",
        "findings",
    ];
    for id in panels {
        assert!(panel(&page, id).len() > 60, "{id}");
        assert!(page.contains(&format!("<a href=\"#{id}\">")), "{id}");
    }
    // The only address is the name space of SVG, which is not fetched.
    let addresses: Vec<&str> = page.matches("://").collect();
    assert_eq!(addresses.len(), page.matches("http://www.w3.org/2000/svg").count());
    assert!(!page.contains("src=") && page.contains("default-src 'none'"));
}

#[test]
fn text_of_a_program_is_no_markup() {
    let attack = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";
    let program = format!("# {attack}\n{}", template("mlp"));
    let page = page(&format!("a{attack}&\"'"), &program, &Options::default());
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "{attack} is in the page");
    assert!(page.contains("&#60;script&#62;alert(1)"), "it is shown");
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn the_data_has_shapes_bytes_and_reasons() {
    let page = page("mlp", template("mlp"), &Options::default());
    let data = data(&page);
    let weight = &data["values"]["Win"];
    assert_eq!(weight["what"], "parameter, bf16");
    assert_eq!(weight["shape"], "D 4096 × F 16384");
    let form = &weight["forms"][0];
    assert_eq!((&form["text"], &form["local"]), (&"Win[D, F_X]".into(), &"4096 × 4096".into()));
    assert_eq!((&form["bytes"], &form["kept"]), (&"33.6 MB".into(), &"always".into()));
    let steps = data["steps"].as_array().expect("a list");
    let moving = steps.iter().find(|step| step["name"] == "ReduceScatter_X Out").expect("it is");
    let why = moving["why"].as_array().expect("a list");
    assert!(
        why.iter().any(|line| line.as_str().is_some_and(|line| line.contains("case 3"))),
        "{why:?}"
    );
}

#[test]
fn equal_plans_are_equal_pages() {
    let pages = [(); 2].map(|()| page("decode", template("decode"), &Options::default()));
    assert!(pages[0] == pages[1]);
}

#[test]
fn findings_have_their_edits() {
    let program = template("mlp").replace("B=4096", "B=4096, Spare=2");
    let page = page("mlp", &program, &Options::default());
    let findings = panel(&page, "findings");
    assert!(
        findings.contains("SW352") && findings.contains("<del>- dim B=4096, Spare=2"),
        "{findings}"
    );
    assert!(findings.contains("<ins>+ dim B=4096, D=4096"), "{findings}");
}

#[test]
fn plans_of_every_strategy_and_empty_ones_have_a_page() {
    let textbook = Options { strategy: Strategy::Textbook, ..Options::default() };
    let page_of = page("mlp", template("mlp"), &textbook);
    assert!(panel(&page_of, "textbook").contains("not searched"));
    let explicit = plan("mlp", template("mlp"), &Options::default()).expect("it has a plan");
    let page_of = page("mlp", &explicit.to_string(), &Options::default());
    assert!(panel(&page_of, "plan").contains("ReduceScatter"));
    let empty = "hardware tpu-v5p\nmesh X=4\ndim I=8\ninput A[I_X]\noutput A[I_X]\n";
    let page_of = page("empty", empty, &Options::default());
    assert!(panel(&page_of, "timeline").contains("Nothing takes time."));
    assert!(panel(&page_of, "roofline").contains("No statement computes anything."));
}
