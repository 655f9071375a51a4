//! What parses, what is rejected and with which message; and that no text makes the parser panic.

mod names_and_lines;

use names_and_lines::FOREIGN;
use proptest::prelude::*;

use super::{Rule, mark, parse};
use crate::ast::{
    BinaryOp, Comparison, ExprKind, HardwareRef, Keeps, Phase, SizeFactor, StateOver, Statement,
    Subscript,
};
use crate::codes;
use crate::diag::Diag;

fn read(source: &str) -> Vec<Statement> {
    let (file, diags) = parse(source);
    assert_eq!(diags, [], "{source}");
    file.statements.into_iter().map(|statement| statement.node).collect()
}

/// `code at "text": message (help)` for every error.
fn errors(source: &str) -> Vec<String> {
    let reported = |diag: &Diag| {
        let at = diag.labels[0].span;
        let help = diag.help.as_deref().unwrap_or("");
        format!("{} at {:?}: {} ({help})", diag.code, &source[at.start..at.end], diag.message)
    };
    parse(source).1.iter().map(reported).collect()
}

#[test]
fn every_mark_is_described() {
    for rule in Rule::all_rules() {
        let name = format!("{rule:?}");
        let is_mark = name.starts_with("missing_") || name.starts_with("bad_");
        assert_eq!(is_mark, mark(*rule).is_some(), "{name}");
    }
}

#[test]
fn declarations_are_read() {
    let statements = read("mesh X=16 over 4x4 ring, Y=2Ki line\ndim F=4*D pad, N=1e30\n");
    let Statement::Mesh(axes) = &statements[0] else { panic!("a mesh") };
    assert_eq!(axes[0].over.as_ref().map(|over| over.node.clone()), Some(vec![4, 4]));
    assert_eq!(axes[0].options[0].node, "ring");
    assert_eq!(axes[1].size.product(), Some(vec![&SizeFactor::Number(Some(2048))]));
    let Statement::Dim(dims) = &statements[1] else { panic!("dims") };
    assert_eq!(dims[0].size.dims(), ["D"]);
    assert!(dims[0].pad.is_some());
    assert_eq!(dims[1].size.product(), Some(vec![&SizeFactor::Number(None)]));
}

#[test]
fn spans_hold_no_white_space() {
    let source = "C [I_X , J] = ( A *J B )  # why\n";
    let (file, _) = parse(source);
    let Statement::Define(definition) = &file.statements[0].node else { panic!("a definition") };
    let layout = definition.target.layout.as_ref().expect("brackets are written");
    let text = |span: crate::span::Span| &source[span.start..span.end];
    assert_eq!(text(layout.span), "[I_X , J]");
    assert_eq!(text(layout.dims[0].span), "I_X");
    assert_eq!(text(definition.value.span), "A *J B");
    let ExprKind::Product { left, right, .. } = &definition.value.node else { panic!("a product") };
    assert_eq!((text(left.span), text(right.span)), ("A", "B"));
    assert_eq!(text(file.statements[0].span), "C [I_X , J] = ( A *J B )");
}

#[test]
fn a_subscript_has_the_axes_that_the_file_declares() {
    let statements = read("W_in[D_data_par, F_?, G_{X, Y}] = W_in\nmesh data_par=4\n");
    let Statement::Define(definition) = &statements[0] else { panic!("a definition") };
    assert_eq!(definition.target.name.node, "W_in");
    let dims = &definition.target.layout.as_ref().expect("brackets are written").dims;
    let words = |i: usize| match &dims[i].subscript {
        Subscript::Axes(words) => words.iter().map(|word| word.node.as_str()).collect(),
        other => vec![if *other == Subscript::Open { "?" } else { "" }],
    };
    assert_eq!((words(0), words(1), words(2)), (vec!["data_par"], vec!["?"], vec!["X", "Y"]));
}

#[test]
fn allow_stands_alone_or_before_a_statement() {
    let statements = read("allow SW301\nallow SW302, SW303 C = A + B\nallow SW304 mesh X=4\n");
    let kinds: Vec<bool> = statements.iter().map(|s| matches!(s, Statement::Allow(_))).collect();
    assert_eq!(kinds, [true, true, false, true, false]);
}

#[test]
fn forms_of_later_versions_are_kept_apart() {
    assert!(matches!(&read("repeat = A + B")[0], Statement::Define(_)));
}

#[test]
fn an_optimizer_has_settings() {
    let statements = read(
        "optimizer adam over {X, data}, moments=bf16,\n  rate=1e-3\noptimizer sgd over _?\n\
            optimizer = A\n",
    );
    let Statement::Optimizer(adam) = &statements[0] else { panic!("{statements:?}") };
    let settings: Vec<(&str, &str)> =
        adam.settings.iter().map(|s| (s.name.node.as_str(), s.value.node.as_str())).collect();
    assert_eq!(
        (adam.name.node.as_str(), settings),
        ("adam", vec![("moments", "bf16"), ("rate", "1e-3")])
    );
    assert!(matches!(&adam.over, Some(StateOver::Axes(words)) if words.len() == 2));
    assert!(
        matches!(&statements[1], Statement::Optimizer(sgd) if sgd.over == Some(StateOver::Open))
    );
    assert!(matches!(&statements[2], Statement::Define(_)));
    for broken in [
        "optimizer",
        "optimizer adam over",
        "optimizer adam, rate",
        "optimizer adam, rate=",
        "optimizer adam, =3",
    ] {
        assert_eq!(parse(broken).1.len(), 1, "{broken}");
    }
}

#[test]
fn blocks_are_statements_between_two_others() {
    let statements = read(
        "repeat L=4*N { # layers\n  carry x\n  x = f(x[B] {U_X})\n  next y[B] = x }\nrepeat L \
            reversed {}\nC = A\n",
    );
    assert_eq!(statements.len(), 8);
    assert!(
        matches!(&statements[0], Statement::Repeat(of) if of.name.node == "L" && of.count.is_some())
    );
    assert!(matches!(&statements[1], Statement::Carry(of) if of[0].name.node == "x"));
    assert!(matches!(&statements[2], Statement::Define(_)));
    assert!(matches!(&statements[3], Statement::Next(of) if of.target.name.node == "y"));
    assert!(matches!(&statements[4], Statement::Close));
    assert!(matches!(&statements[5], Statement::Repeat(of) if of.count.is_none()));
    assert!(matches!(&statements[6], Statement::Close));
}

#[test]
fn pipelines_say_how_layers_are_staged() {
    let source = "pipeline Z, microbatches=2*M of B, schedule=1f1b, chunks=2 { repeat L=4 {\n  \
        carry x\n} }\npipeline = A\n";
    let statements = read(source);
    let Statement::Pipeline(of) = &statements[0] else { panic!("{statements:?}") };
    assert_eq!(
        (of.axis.node.as_str(), of.batch.as_ref().map(|name| name.node.as_str())),
        ("Z", Some("B"))
    );
    assert!(of.microbatches.is_some());
    let options: Vec<(&str, &str)> = of
        .options
        .iter()
        .map(|(option, word)| (option.node.as_str(), word.node.as_str()))
        .collect();
    assert_eq!(options, [("schedule", "1f1b"), ("chunks", "2")]);
    assert!(matches!(&statements[1], Statement::Repeat(_)));
    assert!(matches!(&statements[3..5], [Statement::Close, Statement::Close]));
    assert!(matches!(&statements[5], Statement::Define(_)));
}

#[test]
fn microbatches_name_what_is_cut_and_into_what() {
    let source = "microbatches B=B'*8 {\n  x = part(In)\n}\nmicrobatches tokens=rows*2*M{ y = x }\n\
        microbatches = A\nmicrobatches[B] = A\n";
    let statements = read(source);
    let blocks = statements.iter().filter_map(|statement| {
        if let Statement::Microbatches(of) = statement { Some(of) } else { None }
    });
    let read: Vec<(&str, &str, usize)> = blocks
        .map(|of| (of.whole.node.as_str(), of.part.node.as_str(), of.count.terms[0].parts.len()))
        .collect();
    assert_eq!(read, [("B", "B'", 1), ("tokens", "rows", 2)]);
    let Statement::Microbatches(first) = &statements[0] else { panic!("{statements:?}") };
    let spans = [first.whole.span, first.part.span, first.count.span];
    assert_eq!(spans.map(|span| &source[span.start..span.end]), ["B", "B'", "8"]);
    assert!(matches!(&statements[1..3], [Statement::Define(_), Statement::Close]));
    assert!(matches!(&statements[4..6], [Statement::Define(_), Statement::Close]));
    // A value may be called so.
    assert!(matches!(&statements[6..], [Statement::Define(_), Statement::Define(_)]));
}

#[test]
fn broken_blocks_of_microbatches_are_reported_and_end_where_they_end() {
    let cases = [
        ("microbatches {\n", 1),
        ("microbatches B {\n", 1),
        ("microbatches B=B' {\n", 1),
        ("microbatches B=B'* {\n", 1),
        ("microbatches B=B'*8\n", 1),
    ];
    for (broken, missing) in cases {
        let (file, diags) = parse(&format!("{broken}y = A\n}}\nx = A\n"));
        assert_eq!(
            diags.iter().map(|diag| diag.code).collect::<Vec<_>>(),
            vec![codes::MISSING; missing],
            "{broken}"
        );
        let defined = file.statements.iter().map(|statement| match &statement.node {
            Statement::Define(define) => define.target.name.node.as_str(),
            _ => "",
        });
        assert_eq!(defined.collect::<Vec<_>>(), ["x"], "{broken}");
    }
}

#[test]
fn backward_names_what_is_differentiated() {
    let statements =
        read("backward from Loss\nbackward from Out given dOut, microbatches=2*M\nbackward = A\n");
    let Statement::Backward(whole) = &statements[1] else { panic!("{statements:?}") };
    assert_eq!(
        (whole.from.node.as_str(), whole.given.as_ref().map(|name| name.node.as_str())),
        ("Out", Some("dOut"))
    );
    assert_eq!(whole.microbatches.as_ref().map(|parts| parts.terms[0].parts.len()), Some(2));
    assert!(matches!(&statements[0], Statement::Backward(bare)
            if bare.given.is_none() && bare.microbatches.is_none()));
    assert!(matches!(&statements[2], Statement::Define(_)));
    for broken in [
        "backward",
        "backward from",
        "backward Loss",
        "backward from Loss given",
        "backward from Loss, microbatches",
    ] {
        assert_eq!(parse(broken).1.len(), 1, "{broken}");
    }
}

#[test]
fn plans_name_phases_and_kernels() {
    let statements = read("phase backward\nC[I] = gelu(A[I]) in k12\nphase[I] = in in k1\n");
    assert_eq!(statements[0], Statement::Phase(Phase::Backward, Keeps::default()));
    let kernel = |statement: &Statement| match statement {
        Statement::Define(definition) => definition.kernel.as_ref().map(|kernel| kernel.node),
        _ => None,
    };
    assert_eq!((kernel(&statements[1]), kernel(&statements[2])), (Some(12), Some(1)));
    for broken in ["phase", "phase sideways", "C = A in", "C = A in 1", "C = A in k"] {
        assert_eq!(parse(broken).1.len(), 1, "{broken}");
    }
}

#[test]
fn line_ends_of_every_kind_end_statements() {
    for source in
        ["\u{FEFF}plan\r\nC = A\r\n\r\nD = C", "plan\rC = A\rD = C\r", "plan\nC = A # x\n\tD\t=\tC"]
    {
        assert_eq!(read(source).len(), 3, "{source:?}");
    }
    assert_eq!(read("C[I,  # rows\n  J] = f(\n  A,\n  B\n)\ninput A[I],\n  B[I]\n").len(), 2);
}

#[test]
fn mistakes_stay_in_their_statement() {
    let source = "mehs X=4\ninput A[I, J\ndim B=, D=8\nC[I] = A[I] +\nD = (A\nmesh Y=2\n";
    let (file, diags) = parse(source);
    assert_eq!(diags.len(), 5, "{diags:#?}");
    assert!(matches!(&file.statements[0].node, Statement::Dim(dims)
            if dims.len() == 1 && dims[0].name.node == "D"));
    assert!(matches!(file.statements[1].node, Statement::Mesh(_)));
    assert!(file.lost.mesh && !file.lost.hardware);
    assert_eq!(file.lost.names, ["A", "B", "C", "D"]);
}

#[test]
fn what_a_mistake_would_have_named_is_known() {
    let lost = |source: &str| parse(source).0.lost;
    assert_eq!(lost("a, b = route(x)").names, ["a", "b"]);
    assert_eq!(lost("inptu A[I], B[J]").names, ["A", "B"]);
    assert_eq!(lost("dim B=4 5, C=6").names, ["B", "C"]);
    assert_eq!(lost("dim B=4, S1=S^One").names, ["S1", "One"]);
    assert_eq!(lost("output C[I] = A ? B").names, ["C"]);
    assert!(lost("hardwear tpu-v5p").hardware);
    let nested = "(".repeat(65);
    assert_eq!(lost(&format!("C[I] = {nested}")).names, ["C", "I"]);
    assert_eq!(lost("C = A"), super::super::ast::Lost::default());
}

#[test]
fn a_block_whose_head_is_wrong_is_left_out_whole() {
    let (file, diags) =
        parse("A = B\nrepeat L= {\n  carry x\n  repeat M=2 {\n    y = x\n  }\n  z = y\n}\nC = A\n");
    assert_eq!(diags.len(), 1, "{diags:#?}");
    assert_eq!(
        (file.statements.len(), file.lost.names),
        (2, ["x", "y", "z"].map(str::to_owned).to_vec())
    );
}

#[test]
fn comparisons_bind_less_than_sums() {
    let Statement::Define(of) = &read("C = A + B <= 2.0 * D")[0] else { panic!("a definition") };
    assert!(matches!(
        of.value.node,
        ExprKind::Binary { op: BinaryOp::Compare(Comparison::LessEqual), .. }
    ));
    let text = |source: &str| crate::format::format(source).expect("it is read");
    assert_eq!(text("C=(A<B)*-(D≥E)"), "C = (A < B) * -(D >= E)\n");
    assert_eq!(text("C = select(\n A == B,\n A, 0.0)"), "C = select(A == B, A, 0.0)\n");
    assert_eq!(text("A<B->C"), "A < B -> C\n");
    assert_eq!(text("C = (A + B) - (D - E) / (F * G)"), "C = A + B - (D - E) / (F * G)\n");
    assert_eq!(parse("C = A < B < D").1.len(), 1);
}

#[test]
fn labels_take_in_white_space_of_several_bytes_whole() {
    for source in ["B[I_\u{FEFF}X] = A", "A = (\u{3000}", "C = A +\u{2003}* B", "A[I_\u{A0}"] {
        let (_, diags) = parse(source);
        let spans: Vec<_> =
            diags.iter().flat_map(|diag| &diag.labels).map(|label| label.span).collect();
        assert!(
            !spans.is_empty()
                && spans.iter().all(|span| source.get(span.start..span.end).is_some()),
            "{source:?}: {spans:?}"
        );
    }
}

/// Programs of one mistake, and what is reported of each.
const MISTAKES: [(&str, &str); 13] = [
    ("mehs X=4", "SW001 at \"mehs\": `mehs` is not a keyword (did you mean `mesh`?)"),
    (
        "In *D Win",
        "SW001 at \"In\": `In *D Win` is given no name (write `C[I] = …`, or `… -> C[I]` \
                after it)",
    ),
    (
        "A[I, J",
        "SW001 at \"A[I,\": `A[I, J` is given no name (write `C[I] = …`, or `… -> C[I]` after \
                it)",
    ),
    (
        "input A[I, J",
        "SW002 at \"J\": a `,` or `]` is missing here (close the brackets: `A[I, J_X]`)",
    ),
    (
        "input A[I J]",
        "SW002 at \"J\": a `,` or `]` is missing here (close the brackets: `A[I, J_X]`)",
    ),
    (
        "C = A *_J",
        "SW002 at \"J\": an operand is missing here (write a value, a number, or a function of \
                them)",
    ),
    (
        "C = A * J B",
        "SW003 at \"B\": the statement ends before `B` (the suffix sticks to the `*`: write \
                `*J B`)",
    ),
    (
        "dim B=8; D=4",
        "SW003 at \"; D=4\": the statement ends before `; D=4` (write one statement a line)",
    ),
    (
        "input A[128]",
        "SW007 at \"128\": `128` is a size, not a dimension (declare `dim N=128`, and write \
                `N` here)",
    ),
    (
        "C = AllReduce_X(A {U_X})",
        "SW002 at \"{U_X}\": the brackets are missing before `{U_X}` (write the dimensions \
                too: `A[I, J] {U_X}`)",
    ),
    (
        "assert comm 2ms",
        "SW002 at \"c\": a limit is missing here (write `assert comm <= 2ms`, `assert memory \
                <= 16GB`, `assert no AllGather over X` or `assert W stays sharded`)",
    ),
    ("repeat L=4 {", "SW002 at \"repeat L=4 {\": the block is never closed (write a `}` after it)"),
    (
        "€",
        "SW001 at \"€\": `€` is not a statement (a statement declares (`mesh X=4`, `input \
                A[I_X]`) or defines (`C = A *J B`))",
    ),
];

#[test]
fn names_that_begin_like_directives_are_names() {
    for source in ["backward_w = x @ w", "backward[I] = x @ w", "meshed = x @ w", "mesh = x @ w"] {
        let error = &errors(source)[0];
        assert!(!error.contains("`from`") && !error.contains("axes"), "{source}: {error}");
    }
}

#[test]
fn mistakes_are_reported_with_their_remedy() {
    for (source, expected) in MISTAKES {
        assert_eq!(errors(source)[0], expected);
    }
}

#[test]
fn hostile_sizes_are_refused_or_read() {
    let nested = format!("C = {}A{}", "(".repeat(50_000), ")".repeat(50_000));
    let open = format!("C = {}", "gelu(".repeat(50_000));
    let signs = format!("C = {}A", "-".repeat(50_000));
    let chain = format!("C = A{}", " *J A".repeat(100_000));
    for source in [nested, open, signs, chain] {
        assert_eq!(parse(&source).1[0].code, codes::TOO_DEEP);
    }
    for wide in [
        format!("input A[{}I]", "I_X, ".repeat(100_000)),
        format!("mesh {}Y=2", "X=4, ".repeat(10_000)),
    ] {
        assert_eq!(parse(&wide).1, []);
    }
    assert!(!parse(&"[{(".repeat(50_000)).1.is_empty());
    let deepest = format!("C = {}A{}", "f(".repeat(64), ")".repeat(64));
    assert_eq!(parse(&deepest).1, []);
}

#[test]
fn hardware_is_a_name_a_file_or_both() {
    let named =
        |source: &str| match parse(source).0.statements.first().map(|first| first.node.clone()) {
            Some(Statement::Hardware(HardwareRef { name, file, .. })) => {
                (name.map(|name| name.node), file.map(|file| file.node))
            }
            other => panic!("{source}: {other:?}"),
        };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(named("hardware tpu-v5p"), (some("tpu-v5p"), None));
    assert_eq!(
        named("hardware   \"../my chips/a[1].toml\"  # ours"),
        (None, some("../my chips/a[1].toml"))
    );
    assert_eq!(
        named("hardware my-chip from\"C:\\hw.toml\""),
        (some("my-chip"), some("C:\\hw.toml"))
    );
    let formatted = crate::format("hardware  my-chip  from  \"a  b.toml\"\nhardware   \"c\"\n");
    assert_eq!(formatted.as_deref(), Ok("hardware my-chip from \"a  b.toml\"\nhardware \"c\"\n"));
    for wrong in [
        "hardware \"",
        "hardware \"\"",
        "hardware \"a",
        "hardware a from",
        "hardware a from b",
        "hardware \"a\" b",
        "hardware \"a#b\"",
    ] {
        assert!(!parse(wrong).1.is_empty(), "{wrong}");
    }
}

/// Words and signs of the language.
#[rustfmt::skip]
const WORDS: [&str; 57] = [
    "A", "B_X", "I", "[", "]", "{U_X}", "{", "}", "(", ")", ",", "=", "*J", "*", "_", "·", "->",
    "→", " ", "\n", "\r", "\r\n", "+", "-", "/", "2.0", "48k", ":", "?", "'", ".", "<", ">", "<=",
    "#", "\\", "\\cdot", "\\{", "AllGather_X", "cast<f32>", "plan", "hardware ", "mesh ", "dim ",
    "input ", "output ", "assert ", "allow ", "SW301", "over ", "\"", "hardware \"hw.toml\"",
    "from ", "repeat ", "pad", "zigzag ", "no ",
];

/// Pieces of the language, and what does not belong to it.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        2 => prop::sample::select(&FOREIGN[..]).prop_map(str::to_owned),
        1 => Just("\0é漢\u{FEFF}\u{301}".to_owned()),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_text_is_read_or_refused_with_spans_inside_it(source in pieces()) {
        let (file, diags) = parse(&source);
        for label in diags.iter().flat_map(|diag| &diag.labels) {
            prop_assert!(source.get(label.span.start..label.span.end).is_some(), "{:?}", label);
        }
        for statement in &file.statements {
            prop_assert!(source.get(statement.span.start..statement.span.end).is_some());
        }
        let nameless = format!("{:?}", file.statements).matches("node: \"\"").count();
        let asserts = file.statements.iter().map(|s| matches!(s.node, Statement::Assert(_)));
        let asserts = asserts.filter(|is_assert| *is_assert).count();
        prop_assert!(nameless <= asserts, "only the unit of a limit may be empty");
        for diag in &diags {
            prop_assert!(codes::CODES.iter().any(|known| known.code == diag.code));
        }
    }

    #[test]
    fn a_formatted_text_reads_the_same_and_stays(source in pieces()) {
        if let Ok(once) = crate::format(&source) {
            prop_assert_eq!(crate::format(&once), Ok(once.clone()));
            prop_assert_eq!(crate::format::tests::bare(&source), crate::format::tests::bare(&once));
        }
    }
}
