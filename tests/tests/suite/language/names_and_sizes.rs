//! Names and sizes as people write them: `_` in names, sizes that are computed, square values, and
//! sizes given by option.

use shardwise::{AxisSize, DimSize, Options, Planned};

fn plan(source: &str, options: &Options) -> Result<Planned, Vec<(&'static str, String)>> {
    let report = |report: &shardwise::Report| (report.diag.code, report.diag.message.clone());
    shardwise::plan("program", source, options)
        .map_err(|findings| findings.reports.iter().map(report).collect())
}

fn planned(source: &str) -> Planned {
    plan(source, &Options::default()).unwrap_or_else(|errors| panic!("{source}\n{errors:?}"))
}

/// An MLP and a projection; names with `_` and computed sizes.
const LONG_NAMES: &str = "hardware tpu-v5p
mesh data=4, model=2,
dim batch=64, d_model=1024, d_ff=4*d_model, n_heads=16,
  d_head = d_model/n_heads, P=100, T=28, S = P + T
input In[batch_data, d_model],
param Win[d_model, d_ff_model], Wout[d_ff_model, d_model,]
param Wq[d_model, n_heads_model, d_head], Wo[n_heads_model, d_head, d_model]
Tmp = In *d_model
  Win
Q = In *d_model Wq
O[batch, d_model] = Q *{n_heads, d_head} Wo
Out[batch, d_model] = gelu(Tmp) *d_ff Wout +
  O
output Out[batch_data, d_model]
";

/// The same in short names, one statement a line.
const SHORT_NAMES: &str = "hardware tpu-v5p
mesh X=4, Y=2
dim B=64, D=1024, F=4096, N=16, H=64, P=100, T=28, S=128
input In[B_X, D]
param Win[D, F_Y], Wout[F_Y, D]
param Wq[D, N_Y, H], Wo[N_Y, H, D]
Tmp = In *D Win
Q = In *D Wq
O[B, D] = Q *N,H Wo
Out[B, D] = gelu(Tmp) *F Wout + O
output Out[B_X, D]
";

#[test]
fn long_names_and_computed_sizes_mean_what_short_names_and_numbers_do() {
    let (long, short) = (planned(LONG_NAMES), planned(SHORT_NAMES));
    assert_eq!(long.report.serial_s.to_bits(), short.report.serial_s.to_bits());
    assert_eq!(long.plan.steps.len(), short.plan.steps.len());
    let text = long.to_string();
    assert!(text.contains("d_ff=4096") && text.contains("Tmp[batch, d_ff_model]"), "{text}");
    assert_eq!(planned(&text).to_string(), text, "plans with such names read back");
    let formatted = shardwise::format("long", LONG_NAMES).expect("it parses");
    assert_eq!(shardwise::format("again", &formatted).ok().as_ref(), Some(&formatted));
    assert_eq!(planned(&formatted).to_string(), text);
}

#[test]
fn the_programs_of_the_page_are_right() {
    let page = shardwise_tests::read("compiler/docs/notation.md");
    let programs = page.split("```shard\n").skip(1).filter_map(|rest| rest.split("```").next());
    assert_eq!(programs.map(planned).count(), 4);
}

#[test]
fn a_name_with_two_readings_shows_both() {
    let source = "hardware tpu-v5p\nmesh ff=2, Y=2\ndim d=8, d_ff=32\ninput A[d, d_ff_Y]\n\
        output A[d, d_ff]\n";
    let errors = plan(source, &Options::default()).expect_err("two readings");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].0, "SW007");
    assert!(errors[0].1.contains("the dimension `d_ff`") && errors[0].1.contains("`d_{ff}`"));
}

#[test]
fn sizes_that_do_not_come_out_whole_are_errors() {
    for (size, message) in [
        ("D/3", "4096 / 3 is not a whole number"),
        ("D - D", "this is not a size"),
        ("2 - D", "this is not a size"),
        ("D/0", "this is not a size"),
    ] {
        let source = format!("hardware tpu-v5p\nmesh X=2\ndim D=4096, H={size}\ninput A[D, H]\n");
        let errors = plan(&source, &Options::default()).expect_err(size);
        assert_eq!(errors, [("SW108", message.to_owned())], "{size}");
    }
}

#[test]
fn a_primed_dimension_is_as_long_as_the_other() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim B=64, D=1024\ninput In[B_X, D]\n\
        param W[D, D']\nOut = In *D W\noutput Out[B_X, D']\n";
    let of = |dims| plan(source, &Options { dims, ..Options::default() }).expect("it is square");
    assert!(of(Vec::new()).to_string().contains("D'=1024"));
    let smaller = of(vec![DimSize { name: "D".to_owned(), size: 512 }]).to_string();
    assert!(smaller.contains("D=512, D'=512"), "{smaller}");
    assert_eq!(planned(&smaller).to_string(), smaller);
    let twice = source.replace("[D, D']", "[D, D]");
    let errors = plan(&twice, &Options::default()).expect_err("`D` stands twice");
    assert_eq!(errors[0].0, "SW104", "{errors:?}");
}

const LAYERS: &str = "hardware tpu-v5p\nmesh X=4 over 2\ndim B=64, D=1024\ninput x[B_X, D]\n\
    repeat L=40 {\n  carry x\n  param W[D, D']\n  y = x *D W\n  x[B_X, D] = rename(y)\n}\n\
    output x[B_X, D]\n";

#[test]
fn the_number_of_layers_is_a_size_that_options_replace() {
    let dims = vec![DimSize { name: "L".to_owned(), size: 2 }];
    let two = plan(LAYERS, &Options { dims, ..Options::default() }).expect("two layers");
    let forty = planned(LAYERS);
    assert!(two.to_string().contains("repeat L=2 {"), "{two}");
    assert!(two.report.compute_s < forty.report.compute_s);
    let dims = vec![DimSize { name: "N".to_owned(), size: 2 }];
    let errors = plan(LAYERS, &Options { dims, ..Options::default() }).expect_err("no `N`");
    assert_eq!(errors[0].0, "SW102");
}

#[test]
fn a_mesh_given_by_option_replaces_a_fold_that_no_longer_fits() {
    for (size, fold) in [(16, "X=16 over 2"), (8, "X=8 over 2x4"), (7, "X=7")] {
        let mesh = vec![AxisSize::new("X", size)];
        let planned = plan(LAYERS, &Options { mesh, ..Options::default() });
        match planned {
            Ok(planned) => assert!(planned.to_string().contains(fold), "{planned}"),
            Err(errors) => assert_eq!(errors[0].0, "SW202", "7 does not divide B: {errors:?}"),
        }
    }
}

#[test]
fn parts_given_by_option_replace_those_of_the_program() {
    let source = "hardware tpu-v5p\nmesh X=16 as 8x2\ndim B=4096, D=512\ninput A[B_X.0, D]\n\
                  output A[B_X.0, D_X.1]\n";
    let with = |text: &str| {
        let mesh = shardwise::setting::mesh(text).expect("it is a mesh");
        plan(source, &Options { mesh, ..Options::default() })
    };
    let larger = with("X=32 as 4x8").expect("it has two parts");
    assert!(larger.to_string().contains("mesh X=32 as 4x8"), "{larger}");
    let errors = with("X=8").expect_err("8 is not 8 times 2");
    assert_eq!(errors[0].0, "SW403", "{errors:?}");
    let errors = with("X=32 as 3x8").expect_err("32 is not 3 times 8");
    assert_eq!(errors[0].0, "SW403", "{errors:?}");
}
