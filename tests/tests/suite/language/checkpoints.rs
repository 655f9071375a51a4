//! `checkpoint` by kinds of values: what is computed again, and that gradients stay the same.

use shardwise::verify::{Sizes, evaluate};
use shardwise_ir::unroll;
use shardwise_tests::properties::{checked_plans, program};
use shardwise_tests::random::arrays;
use shardwise_tests::read;

#[test]
fn the_page_is_right() {
    let page = read("compiler/docs/checkpoint.md");
    let blocks = page.split("```shard\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.for_each(|block| {
        checked_plans("page", block, Sizes::Scaled);
    });
}

/// Two small layers of attention and a gated MLP, with this statement at the end of each.
fn layers(checkpoint: &str) -> String {
    format!(
        "hardware h100\nmesh X=1\ndim B=2, T=4, S=T, D=8, N=2, H=4, F=16\n\
        input x[B, T, D], dy[B, T, D]\nrepeat L=2 {{\ncarry x\n\
        param wq[D, N, H], wk[D, N, H], wv[D, N, H], wo[N, H, D], win[D, F], wout[F, D]\n\
        q = x *D wq\nk[B, S, N, H] = rename(x *D wk)\nv[B, S, N, H] = rename(x *D wv)\n\
        l = causal_{{T,S}}(q *H k)\np = softmax_S(l)\no = p *S v\nx = x + o *N,H wo\n\
        m = rmsnorm_D(x)\nh = gelu(m *D win)\nx = x + h *F wout\n{checkpoint}\n}}\n\
        backward from x given dy\noutput dx[B, T, D]\n"
    )
}

/// The names of the values that are computed again.
fn again(checkpoint: &str) -> Vec<String> {
    let program = program("layers", &layers(checkpoint));
    let names = program.ops.iter().map(|op| program.values[op.result].name.clone());
    names.filter_map(|name| Some(name.split_once(".again")?.0.to_owned())).collect()
}

#[test]
fn kinds_of_values_are_computed_again() {
    assert_eq!(again(""), [""; 0]);
    // The scores before the mask are read by nothing going back but the mask.
    assert_eq!(again("checkpoint only attention"), ["l.1", "l", "p"]);
    assert_eq!(again("checkpoint only mlp"), ["h.1", "h"]);
    assert_eq!(again("checkpoint only h"), ["h"]);
    assert_eq!(again("checkpoint only attention, mlp"), ["l.1", "l", "p", "h.1", "h"]);
    let kept_products = again("checkpoint keep products");
    assert!(kept_products.contains(&"p".to_owned()) && kept_products.contains(&"h".to_owned()));
    assert!(!kept_products.contains(&"q".to_owned()) && !kept_products.contains(&"h.1".to_owned()));
    assert!(again("checkpoint").contains(&"q".to_owned()));
    assert_eq!(again("checkpoint keep h"), again("checkpoint h"));
}

#[test]
fn gradients_do_not_depend_on_what_is_kept() {
    let gradients = |checkpoint: &str| {
        let program = program("layers", &layers(checkpoint));
        let whole = unroll::program(&program, &|block| program.iterations(Some(block)));
        evaluate(&whole, &arrays(&whole, 11)).expect("all is declared")
    };
    let kept = gradients("");
    for checkpoint in [
        "checkpoint",
        "checkpoint q, h",
        "checkpoint only attention",
        "checkpoint only mlp, q",
        "checkpoint keep products",
        "checkpoint keep attention, mlp",
    ] {
        let again = gradients(checkpoint);
        for name in ["dx", "dwq@0", "dwv@1", "dwin@0", "dwout@1"] {
            let pairs = kept[name].iter().zip(&again[name]);
            let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst <= 1e-12, "{checkpoint}: {name} {worst}");
        }
    }
}
