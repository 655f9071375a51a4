//! Attention that is masked and experts that are routed: right numbers, and only what is not masked
//! counts.

use shardwise::verify::{Setup, evaluate, verify};
use shardwise::{Options, Planned, Strategy};
use shardwise_tests::{close, files, read, statements};

fn plan(source: &str, strategy: Strategy) -> Planned {
    shardwise::plan("sparse", source, &Options { strategy, ..Options::default() })
        .unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn flops(planned: &Planned, value: &str) -> f64 {
    planned
        .json()
        .steps
        .iter()
        .filter(|step| step.value == value && step.kind == "einsum")
        .map(|step| step.flops)
        .sum()
}

/// How often a collective stands in a plan, forward and in all.
fn count(planned: &Planned, collective: &str, last_forward: &str) -> (usize, usize) {
    let lines = statements(&planned.to_string());
    let forward = lines
        .iter()
        .rposition(|line| line.starts_with(last_forward))
        .expect("the forward part ends");
    let in_lines = |lines: &[String]| lines.iter().filter(|line| line.contains(collective)).count();
    (in_lines(&lines[..=forward]), in_lines(&lines))
}

#[test]
fn causal_attention_counts_half_forward_and_backward() {
    let source = read("tests/programs/sparse/causal.shard");
    let masked = plan(&source, Strategy::Textbook);
    let full = plan(&source.replace("causal_{T,S}(L)", "copy(L)"), Strategy::Textbook);
    for product in ["L", "A", "dP", "dVs", "dKs", "dQ"] {
        assert!(
            (flops(&full, product) / flops(&masked, product) - 2.0).abs() < 1e-12,
            "{product}\n{masked}\n{full}"
        );
    }
    for product in ["Q", "z", "dWQ", "dA"] {
        assert!(
            (flops(&full, product) - flops(&masked, product)).abs() < 1.0,
            "{product}\n{masked}\n{full}"
        );
    }
    let again = plan(&masked.to_string(), Strategy::Search);
    assert_eq!(again.to_string(), masked.to_string());
}

/// The same attention with all keys, and with what `masks` leaves.
fn products_of_attention(masks: &str) -> (Planned, Planned) {
    let program = |options: &str| {
        format!(
            "hardware tpu-v5p\nmesh X=4\ndim B=4, T=4096, S=T, N=2, H=64\n\
            input q[B_X, T, N, H], k[B_X, T, N, H], v[B_X, T, N, H], do[B_X, T, N, H]\n\
            o = attention(q, rename_{{T->S}}(k), rename_{{T->S}}(v){options})\n\
            backward from o given do\n\
            output o[B_X, T, N, H], dq[B_X, T, N, H], dk[B_X, T, N, H], dv[B_X, T, N, H]\n"
        )
    };
    (plan(&program(""), Strategy::Search), plan(&program(masks), Strategy::Search))
}

/// FLOPs of all products of a plan, in the order of their size.
fn products(planned: &Planned) -> Vec<f64> {
    let json = planned.json();
    let mut flops: Vec<f64> =
        json.steps.iter().filter(|step| step.kind == "einsum").map(|step| step.flops).collect();
    flops.retain(|&flops| flops > 1e8);
    flops
}

#[test]
fn scores_count_what_scale_cap_mask_and_window_leave() {
    let share = |window: f64| window / 4096.0 * (1.0 - window / 8192.0);
    let cases = [
        (", causal", 0.5),
        (", causal, scale=0.5, cap=30.0", 0.5),
        (", causal, window=512", share(512.0)),
        (", causal, window=4096", 0.5),
        (", causal, window=1024, cap=30.0", share(1024.0)),
        // All later keys, too.
        (", window=512", 1.0 - (1.0 - 511.0 / 4096.0_f64).powi(2) / 2.0),
    ];
    for (masks, share) in cases {
        let (all, masked) = products_of_attention(masks);
        let (all, masked) = (products(&all), products(&masked));
        assert_eq!((all.len(), masked.len()), (6, 6), "{masks}");
        for (all, masked) in all.iter().zip(&masked) {
            assert!((masked / all - share).abs() < 1e-12, "{masks}: {masked} of {all}");
        }
    }
}

/// Attention whose scores `s` are masked by these statements, which give `m`.
fn masked(statements: &str) -> Vec<f64> {
    let source = format!(
        "hardware tpu-v5p\nmesh X=4\ndim B=4, T=4096, S=T, N=2, H=64\n\
         input q[B_X, T, N, H], k[B_X, S, N, H], v[B_X, S, N, H], do[B_X, T, N, H]\n\
         s = q *H k\n{statements}\no = softmax_S(m) *S v\nbackward from o given do\n\
         output o[B_X, T, N, H], dq[B_X, T, N, H], dk[B_X, S, N, H], dv[B_X, S, N, H]\n"
    );
    products(&plan(&source, Strategy::Search))
}

#[test]
fn masks_count_whichever_way_they_are_written() {
    let all = masked("m = copy(s)");
    let is_share = |statements: &str, share: f64| {
        let masked = masked(statements);
        assert_eq!((all.len(), masked.len()), (6, 6), "{statements}");
        for (all, masked) in all.iter().zip(&masked) {
            assert!((masked / all - share).abs() < 1e-12, "{statements}: {masked} of {all}");
        }
    };
    for causal in [
        "m = select(position_T(s) >= position_S(s), s, -inf)",
        "m = select(position_S(s) <= position_T(s), s, -1e9)",
        "m = select(position_T(s) - position_S(s) > -1.0, s, -1e9)",
        "m = select(0.0 <= 2.0 * position_T(s) - 2.0 * position_S(s), s, -1e9)",
        "m = select(position_S(s) > position_T(s), -1e9 * ones(s), s)",
        "m = causal_{T,S}(s) + 0.001 * (position_S(s) - position_T(s))",
        "m = 0.125 * causal_{T,S}(s)",
        "m = s + causal_{T,S}(0.0 * ones(s))",
    ] {
        is_share(causal, 0.5);
    }
    let near = "position_S(s) + 512.0 > position_T(s)";
    let far = "4096.0 - position_T(s) > 3584.0 - position_S(s)";
    let share = 512.0 / 4096.0 * (1.0 - 512.0 / 8192.0);
    for windowed in [
        format!("m = select({near}, causal_{{T,S}}(s), -1e9)"),
        format!("m = select({far}, causal_{{T,S}}(s), -1e9)"),
        format!("m = causal_{{T,S}}(select({near}, s, -inf))"),
        format!("m = select({near}, select(position_S(s) <= position_T(s), s, -inf), -1e9)"),
        format!("m = select(({near}) * (position_S(s) <= position_T(s)), s, -inf)"),
    ] {
        is_share(&windowed, share);
    }
    let [after, before] = [511.0, 513.0].map(|places: f64| (1.0 - places / 4096.0).powi(2) / 2.0);
    let gap = "position_T(s) - position_S(s)";
    for both_sides in [
        format!("m = select({gap} <= 512.0, select({gap} > -512.0, s, -1e9), -1e9)"),
        format!("m = select(({gap} < 513.0) * (position_S(s) - position_T(s) < 512.0), s, -inf)"),
    ] {
        is_share(&both_sides, 1.0 - after - before);
    }
    // A mask of another kind leaves what was masked before it.
    is_share("m = select(s > 0.0, causal_{T,S}(s), -1e9)", 0.5);
    // Not of a distance, or too weak: not all are less, as gradients may still be.
    for other in [
        "m = select(position_T(s) + position_S(s) < 512.0, s, -inf)",
        "m = select(2.0 * position_T(s) >= position_S(s), s, -inf)",
        "m = select(position_T(s) >= position_S(s), s, -1.0)",
        "m = 1e-9 * select(position_T(s) >= position_S(s), s, -1e9)",
        "m = -causal_{T,S}(s)",
    ] {
        let largest = masked(other).into_iter().fold(0.0, f64::max);
        assert!((largest / all[0] - 1.0).abs() < 1e-12, "{other}");
    }
}

#[test]
fn a_chunk_of_a_prefill_counts_the_keys_until_each_of_its_queries() {
    let chunk = |masks: &str| {
        let source = format!(
            "hardware tpu-v5p\nmesh X=4\ndim B=4, T=1024, S=4096, N=2, H=64\n\
             input q[B_X, T, N, H], k[B_X, S, N, H], v[B_X, S, N, H]\n\
             o = attention(q, k, v{masks})\noutput o[B_X, T, N, H]\n"
        );
        products(&plan(&source, Strategy::Search))
    };
    let all = chunk("");
    let share_of_last = 512.0 / 4096.0;
    for (masks, share) in [
        (", causal, offset=3072", 1.0 - 1024.0 / 8192.0),
        (", causal, offset=1024", 1024.0 / 4096.0 + 1024.0 / 8192.0),
        (", causal, window=512, offset=3072", share_of_last),
        (", causal", 1024.0 / 8192.0),
    ] {
        let masked = chunk(masks);
        assert_eq!((all.len(), masked.len()), (2, 2), "{masks}");
        for (all, masked) in all.iter().zip(&masked) {
            assert!((masked / all - share).abs() < 1e-12, "{masks}: {masked} of {all}");
        }
    }
}

/// What a program computes as `out` from `q`, `k` and `v`.
fn out_of(source: &str, given: [&[f64]; 3]) -> Vec<f64> {
    let program = shardwise::check("attention", source, &Options::default()).program;
    let given = ["q", "k", "v"].map(str::to_owned).into_iter().zip(given.map(<[f64]>::to_vec));
    let values = evaluate(&program.expect("it resolves"), &given.collect());
    values.expect("all is given")["out"].clone()
}

/// The last queries of a sequence, beside all of its keys, get what attention of the sequence gives
/// them.
#[test]
fn a_chunk_of_a_prefill_is_the_end_of_the_whole() {
    let (keys, queries, width) = (12, 5, 3);
    let attention = |queries: usize, masks: &str, given: [&[f64]; 3]| {
        let source = format!(
            "hardware tpu-v5p\nmesh X=1\ndim T={queries}, S={keys}, H={width}\n\
             input q: f32[T, H], k: f32[S, H], v: f32[S, H]\n\
             out = attention(q, k, v, {masks})\noutput out[T, H]\n"
        );
        out_of(&source, given)
    };
    let numbers = |seed: f64| -> Vec<f64> {
        (0..keys * width).map(|at| (seed * (at as f64 + 1.0)).sin()).collect()
    };
    let [q, k, v] = [numbers(1.1), numbers(2.3), numbers(0.7)];
    let last = (keys - queries) * width;
    for (masks, of_chunk) in [
        ("causal", "causal, offset=7"),
        ("window=4", "window=4, offset=7"),
        ("causal, window=4", "causal, window=4, offset=7"),
    ] {
        let whole = attention(keys, masks, [&q, &k, &v]);
        let chunk = attention(queries, of_chunk, [&q[last..], &k, &v]);
        for (a, b) in whole[last..].iter().zip(&chunk) {
            assert!((a - b).abs() < 1e-12, "{masks}: {a} {b}");
        }
    }
}

#[test]
fn what_is_read_without_a_mask_counts_all() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim B=4, T=4096, S=T, H=64\n\
        input q[B_X, T, H], k[B_X, S, H], v[B_X, S, H]\n\
        l = q *H k\nm = 0.125 * l\np = softmax_S(causal_{T,S}(m))\no = p *S v\n\
        output o[B_X, T, H], l[B_X, T, S]\n";
    let [scores, values] = products(&plan(source, Strategy::Search))[..] else { panic!("two") };
    assert!((scores / values - 2.0).abs() < 1e-12);
}

/// On the busiest device: FLOPs are an average, seconds are not.
#[test]
fn a_split_sequence_takes_as_long_as_its_busiest_device() {
    let seconds = |order: &str, devices: u64| {
        let source = format!(
            "hardware tpu-v5p\nmesh X={devices}\ndim B=1, T=65536{order}, S=T, N=1, H=128\n\
            input q[B, T_X, N, H], k[B, S, N, H], v[B, S, N, H]\n\
            o = attention(q, k, v, causal)\noutput o[B, T_X, N, H]\n"
        );
        let json = plan(&source, Strategy::Search).json();
        let products = json.steps.iter().filter(|step| step.kind == "einsum");
        let times: Vec<f64> = products.map(|step| step.time_s * devices as f64).collect();
        assert!((times[0] - times[1]).abs() < 1e-9, "{source}");
        times[0]
    };
    let even = seconds("", 1);
    for devices in [2, 4, 8, 16] {
        let (last, zigzag) =
            (seconds("", devices), seconds(&format!(" zigzag {devices}"), devices));
        assert!((zigzag / even - 1.0).abs() < 1e-6, "{devices}: {zigzag} {even}");
        let expected = 2.0 - 1.0 / devices as f64;
        assert!((last / even - expected).abs() < 1e-6, "{devices}: {last} {even}");
        let more = seconds(&format!(" zigzag {}", 4 * devices), devices);
        assert!((more / even - 1.0).abs() < 1e-6, "{devices}: {more} {even}");
    }
}

/// What attention in zigzag order gives is what attention in the order of the sequence gives, with
/// the rows of its inputs and outputs in the other order.
#[test]
fn zigzag_order_is_the_same_attention_with_its_rows_moved() {
    let (size, pairs, width) = (16, 4, 3);
    let block = size / (2 * pairs);
    let order = (0..pairs).flat_map(|pair| [pair, 2 * pairs - 1 - pair]);
    let order: Vec<usize> = order.flat_map(|at| (0..block).map(move |k| at * block + k)).collect();
    let moved = |rows: &[f64]| -> Vec<f64> {
        order.iter().flat_map(|&row| rows[row * width..][..width].to_vec()).collect()
    };
    let attention = |zigzag: &str, given: [&[f64]; 3]| {
        let source = format!(
            "hardware tpu-v5p\nmesh X=1\ndim T={size}{zigzag}, S=T, H={width}\n\
            input q: f32[T, H], k: f32[T, H], v: f32[T, H]\n\
            out = attention(q, rename_{{T->S}}(k), rename_{{T->S}}(v), causal, window=6)\n\
            output out[T, H]\n"
        );
        out_of(&source, given)
    };
    let numbers = |seed: f64| -> Vec<f64> {
        (0..size * width).map(|at| (seed * (at as f64 + 1.0)).sin()).collect()
    };
    let given = [numbers(1.1), numbers(2.3), numbers(0.7)];
    let plain = attention("", [&given[0], &given[1], &given[2]]);
    let other = given.map(|rows| moved(&rows));
    let zigzag = attention(" zigzag 4", [&other[0], &other[1], &other[2]]);
    for (a, b) in moved(&plain).iter().zip(&zigzag) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }
}

/// So many pairs of blocks that scores are too many to run: what is run in their place is in the
/// same order, of fewer of the other dimensions, or nothing is.
#[test]
fn orders_of_many_blocks_are_run_in_samples_or_refused() {
    for pairs in [64, 512, 2048, 4096] {
        let source = format!(
            "hardware tpu-v5p\nmesh X=8\ndim B=16, T=65536 zigzag {pairs}, S=T, N=8, H=64\n\
            input q[B, T_X, N, H], k[B, T_X, N, H]\n\
            o = attention(q, rename_{{T->S}}(k), rename_{{T->S}}(k), causal)\n\
            output o[B, T_X, N, H]\n"
        );
        match verify("many", &source, &Options::default(), &Setup::default()) {
            Ok(verdict) => assert!(verdict.mismatch.is_none(), "{pairs}: {verdict}"),
            Err(refused) => {
                let codes = refused.reports.iter().map(|report| report.diag.code);
                assert_eq!(codes.collect::<Vec<_>>(), ["SW506"], "{pairs}: {refused}");
            }
        }
    }
}

#[test]
fn a_plan_prints_the_order_of_its_dimensions() {
    let source = read("tests/programs/sparse/zigzag.shard");
    let again = plan(&plan(&source, Strategy::Search).to_string(), Strategy::Search);
    assert!(again.to_string().contains("T=32768 zigzag 4, S=32768 zigzag 4"), "{again}");
}

#[test]
fn tokens_and_experts_over_one_axis_take_two_exchanges_each_way() {
    let source = read("tests/programs/sparse/moe.shard");
    for strategy in [Strategy::Textbook, Strategy::Search] {
        let planned = plan(&source, strategy);
        assert_eq!(count(&planned, "AllToAll", "Out["), (2, 4), "{planned}");
        assert_eq!(count(&planned, "AllGather", "Out["), (0, 0), "{planned}");
    }
}

#[test]
fn experts_count_the_slots_that_they_have_and_the_exchange_what_is_sent() {
    let planned = plan(&read("tests/programs/sparse/moe.shard"), Strategy::Textbook);
    // A device: 64 groups of tokens, one expert with 80 slots, 4096 to 16384 and back.
    let slots = 64.0 * 80.0;
    let expert = 2.0 * slots * 4096.0 * 16384.0;
    assert!(
        (flops(&planned, "H") - expert).abs() < 1.0 && (flops(&planned, "Y") - expert).abs() < 1.0,
        "{planned}"
    );
    // 4 groups of 512 tokens on a device, each to two experts.
    let sent = 2.0 * 4.0 * 512.0 * 2.0 * 4096.0;
    assert!(
        (flops(&planned, "In") - sent).abs() < 1.0 && (flops(&planned, "Out") - sent).abs() < 1.0,
        "{planned}"
    );
}

/// With a slot for every token nothing is dropped, and only slots in use count: as rows of four
/// experts a token, whatever their number.
#[test]
fn without_drops_only_slots_in_use_count() {
    let source = read("tests/programs/sparse/moe-dropless.shard");
    let planned = plan(&source, Strategy::Search);
    let json = planned.json();
    // A device: 64 groups of 2048 tokens over 8 devices, each to four experts.
    let rows = 64.0 * 2048.0 / 8.0 * 4.0;
    let products = json.steps.iter().filter(|step| step.kind == "einsum");
    let of_experts: Vec<f64> =
        products.map(|step| step.flops).filter(|&flops| flops > 1e11).collect();
    assert_eq!(of_experts.len(), 7, "{planned}");
    for flops in of_experts {
        assert!((flops / (2.0 * rows * 4096.0 * 2048.0) - 1.0).abs() < 1e-12, "{flops}\n{planned}");
    }
    // What is sent to the experts is rows, too.
    let sent = source.replace("In = Sent", "In[G_Z, E, C, D] = Sent");
    let sent = plan(&sent.replace("In *D W", "In[G, E_Z, C, D] *D W"), Strategy::Search);
    let exchanged = sent.json().steps.iter().find(|step| step.kind == "all_to_all").cloned();
    let exchanged = exchanged.unwrap_or_else(|| panic!("{sent}"));
    let bytes = (rows * 4096.0 * 2.0) as u64;
    assert_eq!((exchanged.value.as_str(), exchanged.local_bytes), ("In", bytes), "{sent}");
    // Four of 64 experts for each token: a sixteenth of the slots, also of what a bias fills.
    let filled = |name: &str| json.values.iter().find(|value| value.value == name)?.filled;
    for name in ["Sent", "In", "H", "H.3", "H.4", "dWout", "dH"] {
        let share = if name == "Sent" { 4.0 / (64.0 * 2048.0) } else { 1.0 / 16.0 };
        let expected = Some(share).filter(|_| name != "dWout");
        assert_eq!(filled(name), expected, "{name}\n{planned}");
    }
    // The kinds of statements stay: a plan is parsed to the same prices.
    let again = plan(&planned.to_string(), Strategy::Search);
    assert_eq!(again.to_string(), planned.to_string());
}

/// Experts over one axis, hidden and token dimensions over another; each expert has so many slots.
fn experts(slots: &str, busiest: &str) -> String {
    format!(
        "hardware tpu-v5p\nmesh Z=8, Y=4\ndim G=64, T=2048, C={slots}, E=64, D=4096, F=2048\n\
         input X[G_Z, T_Y, D], dOut[G_Z, T_Y, D]\nparam Wg[D, E]\n\
         param Win[E_Z, D_Y, F], Wgate[E_Z, D_Y, F], Wout[E_Z, F, D_Y]\n\
         Scores = softmax_E(X *D Wg)\nSent = route_{{T,E->C}}(Scores, 4{busiest})\n\
         In = Sent *T X\nH = silu(In *D Wgate) * (In *D Win)\n\
         Out = (Sent * Scores) *E,C (H *F Wout)\nbackward from Out given dOut\n\
         output Out[G_Z, T_Y, D]\n"
    )
}

#[test]
fn a_search_without_drops_is_that_with_as_many_slots_as_are_used() {
    // 4 of 64 experts for each of 2048 tokens are 128 tokens for each expert.
    let [all, used] = ["T", "128"].map(|slots| plan(&experts(slots, ""), Strategy::Search).report);
    assert!(close(all.comm_s, used.comm_s), "{} and {}", all.comm_s, used.comm_s);
    assert!(all.serial_s < used.serial_s, "combine weights of free slots are not computed");
    assert!(all.serial_s > 0.95 * used.serial_s, "{} and {}", all.serial_s, used.serial_s);
}

#[test]
fn the_busiest_device_has_the_tokens_that_a_route_says() {
    let even = plan(&experts("T", ""), Strategy::Textbook);
    let uneven = plan(&experts("T", ", busiest=1.5"), Strategy::Textbook);
    let product = |planned: &Planned| {
        let steps = planned.json().steps;
        let product = steps.iter().find(|step| step.text.contains("*F Wout"));
        product.map(|step| (step.flops, step.time_s)).expect("it is in the plan")
    };
    let ((flops, time_s), (same, longer_s)) = (product(&even), product(&uneven));
    assert!(close(flops, same), "FLOPs are those of the average device");
    assert!(close(longer_s, 1.5 * time_s), "{longer_s} for {time_s}");
    assert!(uneven.report.memory.peak_bytes > even.report.memory.peak_bytes);
    // It cannot have more than all tokens.
    let all = plan(&experts("T", ", busiest=100.0"), Strategy::Textbook);
    assert!(close(product(&all).1, 8.0 * time_s));
    let again = plan(&uneven.to_string(), Strategy::Search);
    assert_eq!(again.to_string(), uneven.to_string());
}

#[test]
fn an_exchange_takes_as_long_as_that_of_the_busiest_device() {
    let exchange = |busiest: &str| {
        let source = format!(
            "hardware tpu-v5p\nmesh Z=8\ndim G=64, T=2048, C=T, E=64, D=4096\n\
             input X[G_Z, T, D], S[G_Z, T, E]\nSent = route_{{T,E->C}}(S, 4{busiest})\n\
             In[G_Z, E, C, D] = Sent *T X\nOut[G, E_Z, C, D] = AllToAll_{{Z,E}}(In)\n\
             output Out[G, E_Z, C, D]\n"
        );
        let planned = plan(&source, Strategy::Textbook);
        let of = planned.json().steps.iter().find(|step| step.kind == "all_to_all").cloned();
        of.map_or_else(|| panic!("{planned}"), |step| step.time_s)
    };
    assert!(close(exchange(", busiest=1.5"), 1.5 * exchange("")));
}

#[test]
fn how_busy_the_busiest_device_is_follows_rules() {
    let refused = |busiest: &str, slots: &str| {
        let source = experts(slots, busiest);
        let refused = shardwise::plan("sparse", &source, &Options::default()).map(|_| ());
        refused.expect_err("it is wrong").to_string()
    };
    assert!(refused(", busiest=0.5", "T").contains("`busiest` cannot be 0.5"));
    assert!(refused(", busyness=1.5", "T").contains("`route` has no option `busyness`"));
    assert!(refused(", busiest=1.5, busiest=2.0", "T").contains("given twice"));
    assert!(refused(", busiest=1.5", "128").contains("experts drop tokens"));
}

#[test]
fn what_is_masked_and_routed_gives_the_unsharded_numbers() {
    for (name, source) in files("tests/programs/sparse", ".shard") {
        for strategy in [Strategy::Textbook, Strategy::Search] {
            for seed in 1..4 {
                let options = Options { strategy, ..Options::default() };
                let verdict = verify(&name, &source, &options, &Setup { seed, ..Setup::default() })
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(verdict.mismatch.is_none(), "{name}: {verdict}");
                assert_eq!(verdict.undefined, 0, "{name}: {verdict}");
            }
        }
    }
}

/// Tokens on every device of the experts' axis: nothing is exchanged, each device computes what its
/// experts give, and the sum is reduced once.
#[test]
fn replicated_tokens_need_no_exchange() {
    let planned = plan(&read("tests/programs/sparse/moe-replicated.shard"), Strategy::Search);
    assert_eq!(count(&planned, "AllToAll", "Out["), (0, 0), "{planned}");
    let reductions =
        count(&planned, "AllReduce", "Out[").1 + count(&planned, "ReduceScatter", "Out[").1;
    assert_eq!(reductions, 1, "{planned}");
}
