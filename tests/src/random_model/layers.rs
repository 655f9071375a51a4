//! The layers of random models: what each declares, and its statements about the carried
//! `x[B, T, D]`; `#` becomes a number that keeps names apart.

/// Layers that treat all places of the sequence alike, or go by their positions.
pub(super) const IN_ANY_ORDER: [(&str, &str); 15] = [
    ("W#[D, F], V#[F, D]", "x = x + gelu(x *D W#) *F V#\n"),
    ("W#[D_X, F_Y], V#[F_Y, D_X]", "h# = silu(x *D W#)\nx = x + h# *F V#\n"),
    ("W#[D_?, F_?], V#[F_?, D_?]", "x = x + tanh(rmsnorm_D(x) *D W#) *F V#\n"),
    ("s#[D]", "x = layernorm_D(x) * s#\n"),
    ("s#[D_X]", "x = x * s# + 0.5 * x\n"),
    ("", "x = x + 0.1 * softmax_D(x)\n"),
    ("", "x = select(less(x, 0.0), 0.5 * x, x)\n"),
    ("", "x = x + stop_gradient(max_D(x))\n"),
    (
        "wq#[D, K_Y, H], wk#[D, K_Y, H], wo#[K_Y, H, D]",
        "q# = x *D wq#\nk#[B_?, S_?, K_?, H_?] = rename(x *D wk#)\n\
         p# = softmax_S(causal_{T,S}(q# *H k#))\nx = x + (p# *S k#) *K,H wo#\n",
    ),
    (
        "wq#[D, K, H], wo#[K, H, D]",
        "q#[B_?, T_?, K_?, H_?] = x *D wq#\nk#[B_?, S_?, K_?, H_?] = rename(q#)\n\
         p# = softmax_S(0.25 * (q# *H k#))\nx = x + (p# *S k#) *K,H wo#\n",
    ),
    (
        "wq#[D, K_Y, H], wk#[D, K_Y, H], wv#[D, K_Y, H], wo#[K_Y, H, D]",
        "s#[B_?, S_?, D_?] = rename(x)\n\
         x = x + attention(x *D wq#, s# *D wk#, s# *D wv#, causal) *K,H wo#\n",
    ),
    (
        "wq#[D, K_?, G, H], wk#[D, K_?, H], wo#[K_?, G, H, D]",
        "k#[B_?, S_?, K_?, H_?] = rename(x *D wk#)\n\
         a# = attention(x *D wq#, k#, tanh(k#), causal, window=5, cap=4.0)\n\
         x = x + a# *K,G,H wo#\n",
    ),
    (
        "r#[D, E], win#[E_Y, D, F], wout#[E_Y, F, D]",
        "g# = route_{T,E->Slots}(softmax_E(x *D r#), 2)\nm# = relu((g# *T x) *D win#)\n\
         x = x + g# *E,Slots (m# *F wout#)\n",
    ),
    (
        "r#[D, E], win#[E_Y, D, F], wout#[E_Y, F, D]",
        "c# = softmax_E(x *D r#)\ng# = route_{T,E->All}(c#, 2)\n\
         m# = silu((g# *T x) *D win#)\nx = x + (g# * c#) *E,All (m# *F wout#)\n",
    ),
    (
        "W#[D, P]",
        "y#[B_?, T_?, N_?, Q_?] = reshape(tanh(x *D W#))\nx = x * (1.0 + sum_{N,Q}(y#))\n",
    ),
];

/// Layers that need what stands next to each other in the sequence.
pub(super) const IN_SEQUENCE: [(&str, &str); 8] = [
    ("", "x = x + 0.5 * roll_T(x, 1)\n"),
    ("", "x = 0.5 * (x + cumsum_T(x))\n"),
    (
        "wb#[D, H]",
        "S#: f32[B, H] = 0.0\nscan T in C {\ncarry S#\nb# = x *D wb#\n\
         o# = cumsum_C(b#) + S#\nS# = 0.5 * S# + sum_C(b#)\n}\n\
         x = x + 0.1 * tanh(stack(o#)) *H wb#\n",
    ),
    (
        "u#[T, D]",
        "a#[B, D] = 0.0\nscan T in C {\ncarry a#\ny# = x * u# + a#\n\
         a# = tanh(0.5 * a# + mean_C(x))\n}\nx = x + 0.5 * stack(y#)\n",
    ),
    ("w#[Near, D]", "c#[B_?, T_?, D_?] = conv_{T,Near}(x, w#)\nx = x + 0.5 * c#\n"),
    (
        "w#[Near, D, F_Y], V#[F_Y, D]",
        "c#[B_?, T_?, F_?] = conv_{T,Near}(x, w#)\nx = x + relu(c#) *F V#\n",
    ),
    (
        "",
        "n#[B_?, C_?, W_?, D_?] = windows_{T->C,W}(x, stride=4, padding=1)\n\
         x = x + 0.5 * overlap_{C,W->T}(tanh(n#), stride=4, padding=1)\n",
    ),
    (
        "w#[W, D, F], V#[F, W, D]",
        "n#[B_?, C_?, F_?] = conv_{T,W->C}(x, w#, stride=4, padding=1)\n\
         o#[B_?, C_?, W_?, D_?] = gelu(n#) *F V#\n\
         x = x + 0.5 * overlap_{C,W->T}(o#, stride=4, padding=1)\n",
    ),
];
