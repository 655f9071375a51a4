//! As what mesh axes act in a plan: each role on the smallest program that has it.

use shardwise::{Options, Strategy};

/// The roles of the axes of the textbook's plan: `X=4 acts as DP (B)`.
fn roles(program: &str) -> Vec<String> {
    let source = format!("hardware tpu-v5p\n{program}");
    let options =
        Options { strategy: Strategy::Textbook, memory: Some(f64::INFINITY), ..Options::default() };
    let planned = shardwise::plan("roles", &source, &options).unwrap_or_else(|e| panic!("{e}"));
    let roles: Vec<String> = planned.parallelism().iter().map(ToString::to_string).collect();
    let text = planned.to_string();
    for line in &roles {
        assert!(text.contains(&format!("\n# {line}\n")), "{line}\n{text}");
    }
    roles
}

const MLP_SIZES: &str = "dim B=1024, D=1024, F=4096\n";

#[test]
fn a_split_batch_is_data_parallel() {
    let program = format!(
        "mesh X=4\n{MLP_SIZES}input In[B_X, D]\nparam W[D, F]\nOut = In *D W\n\
         output Out[B_X, F]\n"
    );
    assert_eq!(roles(&program), ["X=4 acts as DP (B)"]);
}

#[test]
fn weights_gathered_before_use_are_fully_sharded() {
    let program = format!(
        "mesh X=4\n{MLP_SIZES}input In[B_X, D]\nparam W[D_X, F]\nOut = In *D W\n\
         output Out[B_X, F]\n"
    );
    assert_eq!(roles(&program), ["X=4 acts as DP (B), FSDP (D)"]);
}

#[test]
fn weights_split_where_they_are_used_are_tensor_parallel() {
    let program = format!(
        "mesh X=4, Y=2\n{MLP_SIZES}input In[B_X, D]\nparam Win[D, F_Y], Wout[F_Y, D]\n\
         Out = gelu(In *D Win) *F Wout\noutput Out[B_X, D]\n"
    );
    assert_eq!(roles(&program), ["X=4 acts as DP (B)", "Y=2 acts as TP (F)"]);
}

const SIZES: &str = "dim B=8, T=1024, S=T, D=1024, N=8, H=128\n";
const ATTENTION: &str = "param wq[D, N, H], wk[D, N, H], wv[D, N, H]\nq = x *D wq\n\
     k[B_?, S_?, N_?, H_?] = rename(x *D wk)\n\
     v[B_?, S_?, N_?, H_?] = rename(x *D wv)\nout = softmax_S(q *H k) *S v\n";

#[test]
fn split_positions_are_sequence_parallel() {
    let program =
        format!("mesh X=4\n{SIZES}input x[B, T_X, D]\n{ATTENTION}output out[B, T_X, N, H]\n");
    assert_eq!(roles(&program), ["X=4 acts as SP (S, T)"]);
}

#[test]
fn a_batch_without_attention_is_no_sequence() {
    let program =
        format!("mesh X=4\n{SIZES}input x[B_X, T, D]\n{ATTENTION}output out[B_X, T, N, H]\n");
    assert_eq!(roles(&program), ["X=4 acts as DP (B)"]);
}

/// Pairs of a batch are compared with each other, which is no attention: nothing else is shared.
#[test]
fn a_contrastive_loss_makes_no_sequence_of_its_batch() {
    let program = "mesh X=4\ndim B=1024, Others=B, D=1024, P=512\ninput u[B_X, D], w[B_X, D]\n\
        param Wu[D, P], Ww[D, P]\na = u *D Wu\no[Others_?, P_?] = rename(w *D Ww)\n\
        pairs = a *P o\nLoss = sum_{B,Others}(pairs)\noutput Loss[]\n";
    assert_eq!(roles(program), ["X=4 acts as DP (B)"]);
}

#[test]
fn experts_on_their_devices_are_expert_parallel() {
    let program = "mesh X=4\ndim G=8, T=256, D=512, F=1024, E=8, C=64\ninput x[G_X, T, D]\n\
        param router[D, E], win[E_X, D, F], wout[E_X, F, D]\n\
        sent = route_{T,E->C}(softmax_E(x *D router), 2)\n\
        h[G_?, E_X, C_?, F_?] = gelu((sent *T x) *D win)\nf = sent *E,C (h *F wout)\n\
        y = x + f\noutput y[G_X, T, D]\n";
    assert_eq!(roles(program), ["X=4 acts as DP (G), EP (E)"]);
}

#[test]
fn stages_are_pipeline_parallel() {
    let program = "mesh Z=4, X=2\ndim B=1024, D=1024\ninput x[B_X, D]\n\
        pipeline Z, microbatches=8 of B {\n  repeat L=8 {\n    carry x\n    param W[D, D\']\n    \
        x = rename(gelu(x *D W))\n  }\n}\noutput x[B_X, D]\n";
    assert_eq!(roles(program), ["Z=4 acts as PP (L)", "X=2 acts as DP (B)"]);
}

#[test]
fn an_axis_that_splits_nothing_of_the_model_has_no_role() {
    let program = format!(
        "mesh X=4\n{MLP_SIZES}input In[B, D]\nparam W[D, F]\nOut = In *D W\noutput Out[B, F]\n"
    );
    assert_eq!(roles(&program), ["X=4 acts as none of DP, FSDP, TP, SP, EP and PP"]);
}

#[test]
fn products_of_inputs_are_no_model() {
    let program = "mesh X=4\ndim I=64, J=64, K=64\ninput A[I_X, J], B[J, K]\nC = A *J B\n\
        output C[I_X, K]\n";
    assert_eq!(roles(program), [""; 0]);
}

#[test]
fn json_has_the_roles_with_their_shares() {
    let source = format!(
        "hardware tpu-v5p\nmesh X=4\n{MLP_SIZES}input In[B_X, D]\nparam W[D_X, F]\n\
         Out = In *D W\noutput Out[B_X, F]\n"
    );
    let options = Options { strategy: Strategy::Textbook, ..Options::default() };
    let planned = shardwise::plan("roles", &source, &options).expect("it is right");
    let json: serde_json::Value =
        serde_json::from_str(&planned.json().to_text()).expect("plans are JSON");
    let axis = &json["parallelism"][0];
    assert_eq!((&axis["axis"], &axis["size"]), (&"X".into(), &4.into()));
    let role = &axis["roles"][1];
    assert_eq!((&role["role"], &role["splits"][0]), (&"FSDP".into(), &"D".into()));
    assert_eq!(role["share"], 1.0);
}
