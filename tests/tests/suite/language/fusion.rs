//! Operations that run as one kernel: what they read, write and keep, by hand; and that the search
//! prices them as the report does.

use shardwise::{Fusion, Options, Planned};
use shardwise_ir::ids::OpId;
use shardwise_ir::program::Program;
use shardwise_tests::planning::planned;
use shardwise_tests::{files, read};

fn fused(source: &str, fusion: Fusion) -> Planned {
    planned(
        source,
        &Options { fusion: Some(fusion), memory: Some(f64::INFINITY), ..Options::default() },
    )
}

/// Bytes that a device reads and writes.
fn traffic(source: &str, fusion: Fusion) -> f64 {
    fused(source, fusion).report.steps.iter().map(|step| step.bytes).sum()
}

fn peak_bytes(source: &str, fusion: Fusion) -> f64 {
    fused(source, fusion).report.memory.peak_bytes
}

#[test]
fn a_chain_is_read_once_and_written_once() {
    let source = "hardware h100\nmesh X=1\ndim N=1048576\ninput x[N], y[N]\n\
        a = gelu(x)\nb = a * y\nc = b + x\noutput c[N]\n";
    let array: f64 = 2.0 * 1_048_576.0;
    // gelu: 2 arrays, product: 3, sum: 3; fused: x once for gelu and the sum, y, c.
    assert_eq!(traffic(source, Fusion::None).to_bits(), (8.0 * array).to_bits());
    assert_eq!(traffic(source, Fusion::ElementWise).to_bits(), (3.0 * array).to_bits());
}

/// Under another name a value has the same bytes, which are read once.
#[test]
fn a_view_that_a_kernel_begins_with_is_read() {
    let head = "hardware h100\nmesh X=1\ndim N=1024, M=1024, P=N*M, K=N\ninput x[N, M]\n";
    let array: f64 = 2.0 * 1024.0 * 1024.0;
    for (statements, arrays) in [
        ("y = relu(rename_{N->K}(x))\noutput y[K, M]", 2.0),
        ("v[P] = reshape(x)\ny = relu(v)\noutput y[P]", 2.0),
        ("v[P] = reshape(x)\ny = relu(v)\noutput y[P], v[P]", 2.0),
        ("y = rename_{N->K}(relu(x))\noutput y[K, M]", 2.0),
        ("y = rename_{N->K}(x)\noutput y[K, M]", 0.0),
    ] {
        let bytes = traffic(&format!("{head}{statements}\n"), Fusion::Attention);
        assert_eq!(bytes.to_bits(), (arrays * array).to_bits(), "{statements}");
    }
}

/// What a product reads is in memory until its kernel has written what follows; what is read
/// element by element may be overwritten.
#[test]
fn operands_of_products_are_in_memory_beside_what_their_kernel_writes() {
    let array: f64 = 2.0 * 1_048_576.0 * 1024.0;
    let head = "hardware h100\nmesh X=1\ndim B=1048576, D=1024, F=1024\ninput x[B, D]\n";
    let bytes = |body: &str| peak_bytes(&format!("{head}{body}"), Fusion::Attention);
    let near = |bytes: f64, arrays: f64| (bytes / array - arrays).abs() < 0.01;
    let product = "input v[D, F]\nz = gelu(x *D v)\noutput z[B, F]\n";
    assert!(near(bytes(product), 2.0), "{}", bytes(product));
    let longer = "input v[D, F]\nz = gelu(relu(x) *D v) * 2.0 + 1.0\noutput z[B, F]\n";
    assert!(near(bytes(longer), 2.0), "{}", bytes(longer));
    let alone = "z = gelu(relu(x) * 2.0)\noutput z[B, D]\n";
    assert!(near(bytes(alone), 1.0), "{}", bytes(alone));
}

/// A result does not take the place of smaller arrays: a norm's mean is beside it, however the
/// statements are written.
#[test]
fn smaller_operands_are_in_memory_beside_what_their_kernel_writes() {
    let source = |result: &str| {
        format!(
            "hardware tpu-v5e\nmesh X=2\ndim B=4, D=1048576\ninput i[B_X, D], a[D]\n{result}\n\
             output v[B_X, D]\n"
        )
    };
    let bytes = |rows: f64| rows * 1_048_576.0 * 2.0;
    let peak = |result: &str| peak_bytes(&source(result), Fusion::default());
    for product in ["v = i * a", "v = i * rsqrt(a)"] {
        assert!((peak(product) - bytes(5.0)).abs() < 1.0, "{product}: {}", peak(product));
    }
    for norm in ["v = rmsnorm_B(i)", "v = layernorm_B(i)", "v = softmax_B(i)"] {
        let planned = fused(&source(norm), Fusion::default());
        let again = fused(&planned.to_string(), Fusion::default());
        let [first, second] = [planned, again].map(|of| of.report.memory.peak_bytes);
        assert!((first - second).abs() < 1.0, "{norm}: {first}, as a plan {second}");
    }
}

#[test]
fn attention_has_its_operands_in_memory_until_it_has_written_its_result() {
    let source = "hardware h100\nmesh X=1\ndim B=8, T=2048, S=T, N=32, H=128\n\
        input q[B, T, N, H], k[B, S, N, H], v[B, S, N, H]\n\
        z = attention(q, k, v)\noutput z[B, T, N, H]\n";
    let array = 2.0 * 8.0 * 2048.0 * 32.0 * 128.0;
    assert!((peak_bytes(source, Fusion::Attention) / array - 4.0).abs() < 0.01);
}

#[test]
fn an_array_that_one_kernel_names_twice_is_read_once() {
    let source = "hardware h100\nmesh X=1\ndim N=1048576\ninput x[N]\n\
        a = x * x\nb = x + a * x\noutput b[N]\n";
    let array: f64 = 2.0 * 1_048_576.0;
    assert_eq!(traffic(source, Fusion::ElementWise).to_bits(), (2.0 * array).to_bits());
}

#[test]
fn what_others_read_is_written() {
    let source = "hardware h100\nmesh X=1\ndim M=1024, N=1024, K=1024\ninput x[M, K]\n\
        param w[K, N], v[N, K]\nh = gelu(x *K w)\ny = h *N v\nz = h * h\noutput y[M, K], z[M, N]\n";
    let array: f64 = 2.0 * 1024.0 * 1024.0;
    // The first product yields to gelu, and gelu to its square: x, w, h, z; h, v, y.
    assert_eq!(traffic(source, Fusion::ElementWise).to_bits(), (7.0 * array).to_bits());
}

#[test]
fn a_convolution_reads_its_operand_once_for_each_product_that_takes_its_windows() {
    let bytes_of_windows = |param: &str, rest: &str| {
        let source = format!(
            "hardware h100\nmesh X=1\ndim B=4, H=64, P=32, C=16, K=32, R=3\n\
             input x[B, H, C], dy[B, P, K]\n{param} w[R, C, K]\n\
             y = conv_{{H,R->P}}(x, w, stride=2, padding=1)\n{rest}\n"
        );
        fused(&source, Fusion::Attention).report.steps[0].bytes
    };
    let x: f64 = 2.0 * 4.0 * 64.0 * 16.0;
    let forward = bytes_of_windows("param", "output y[B, P, K]");
    assert_eq!(forward.to_bits(), x.to_bits());
    let trained = bytes_of_windows("param", "backward from y given dy\noutput dw[R, C, K]");
    assert_eq!(trained.to_bits(), (2.0 * x).to_bits());
    let frozen = bytes_of_windows("frozen param", "backward from y given dy\noutput dx[B, H, C]");
    assert_eq!(frozen.to_bits(), x.to_bits());
}

const ATTENTION: &str = "hardware h100\nmesh X=8\ndim B=8, T=4096, S=T, N=16, H=64, D=1024\n\
    input x[B_X, T, D]\nparam wq[D, N, H], wk[D, N, H], wv[D, N, H]\nq = x *D wq\n\
    k[B_X, S, N, H] = rename(x *D wk)\nv[B_X, S, N, H] = rename(x *D wv)\n\
    p = softmax_S(causal_{T,S}(q *H k))\no = p *S v\n";
/// Bytes of the scores on a device.
const SCORES: f64 = 2.0 * 16.0 * 4096.0 * 4096.0;

#[test]
fn scores_are_not_in_memory() {
    let forward = format!("{ATTENTION}output o[B_X, T, N, H]\n");
    let training = format!("{ATTENTION}Loss = sum_{{B,T,N,H}}(o * o)\nbackward from Loss\n");
    for source in [forward.as_str(), &training] {
        assert!(peak_bytes(source, Fusion::ElementWise) > SCORES, "{source}");
        assert!(peak_bytes(source, Fusion::Attention) < SCORES, "{source}");
        assert!(traffic(source, Fusion::Attention) < traffic(source, Fusion::ElementWise) / 2.0);
    }
}

/// Whatever stands between product and softmax, element by element: the gradients of `tanh` and
/// `relu` read a score other than the softmax's own, and that is computed again as the others are.
#[test]
fn functions_of_scores_keep_nothing_for_gradients() {
    let training = |scores: &str| {
        let source = ATTENTION.replace("causal_{T,S}(q *H k)", scores);
        format!("{source}Loss = sum_{{B,T,N,H}}(o * o)\nbackward from Loss\n")
    };
    let plain = peak_bytes(&training("causal_{T,S}(q *H k)"), Fusion::Attention);
    for scores in [
        "causal_{T,S}(30.0 * tanh((q *H k) / 30.0))",
        "30.0 * tanh(causal_{T,S}(q *H k) / 30.0)",
        "causal_{T,S}(relu(q *H k))",
        "causal_{T,S}(square(gelu(0.1 * (q *H k))))",
    ] {
        let source = training(scores);
        assert_eq!(peak_bytes(&source, Fusion::Attention).to_bits(), plain.to_bits(), "{scores}");
        assert!(peak_bytes(&source, Fusion::ElementWise) > SCORES, "{scores}");
    }
    // What is done to the weights is no other: a mask of dropped ones.
    let dropped = ATTENTION.replace("p *S v", "(p * p) *S v");
    let dropped = format!("{dropped}Loss = sum_{{B,T,N,H}}(o * o)\nbackward from Loss\n");
    assert_eq!(peak_bytes(&dropped, Fusion::Attention).to_bits(), plain.to_bits());
}

#[test]
fn a_soft_cap_takes_no_memory_where_the_sequence_is_split() {
    let capped = read("tests/programs/layers/soft-cap.shard");
    let of = |source: &str| peak_bytes(source, Fusion::Attention);
    assert_eq!(of(&capped).to_bits(), of(&capped.replace(", cap=50.0", "")).to_bits());
}

/// `exp(s - logsumexp_S(s))` is `softmax_S(s)`, forward and going back.
#[test]
fn a_softmax_by_its_logsumexp_is_attention() {
    for end in ["output o[B, T, N, H]\n", "backward from o given do\noutput dq[B, T, N, H]\n"] {
        let seconds = |softmax: &str| {
            let source = format!(
                "hardware h100\nmesh X=1\ndim B=1, T=8192, S=T, N=32, H=128\n\
                 input q[B, T, N, H], k[B, S, N, H], v[B, S, N, H], do[B, T, N, H]\n\
                 s = causal_{{T,S}}(0.088 * (q *H k))\np = {softmax}\no = p *S v\n{end}"
            );
            fused(&source, Fusion::Attention).report.serial_s
        };
        let (composite, written) = (seconds("softmax_S(s)"), seconds("exp(s - logsumexp_S(s))"));
        assert!(written < 1.1 * composite, "{end}: {written} {composite}");
    }
}

#[test]
fn scores_that_leave_are_written() {
    let source = format!("{ATTENTION}output o[B_X, T, N, H], p[B_X, T, N, S]\n");
    assert!(peak_bytes(&source, Fusion::Attention) > SCORES);
}

/// Another product with scores, or a sum over queries, is in no kernel of attention: it reads them.
#[test]
fn scores_that_are_summed_otherwise_are_written() {
    for (statement, output) in [
        ("u = s *S v", "u[B_X, T, N, H]"),
        ("u = p *T w", "u[B_X, N, S, H]"),
        ("u = sum_T(s)", "u[B_X, N, S]"),
    ] {
        let attention = ATTENTION
            .replacen("input ", "input w[B_X, T, N, H], ", 1)
            .replace("softmax_S(causal_{T,S}(q *H k))", "softmax_S(s)")
            .replace("p = ", "s = causal_{T,S}(q *H k)\np = ");
        let source = format!("{attention}{statement}\noutput o[B_X, T, N, H], {output}\n");
        assert!(peak_bytes(&source, Fusion::Attention) > SCORES, "{statement}");
    }
    // The sum of each row's weights is a statistic that such a kernel has anyway.
    let source = format!("{ATTENTION}u = sum_S(p)\noutput o[B_X, T, N, H], u[B_X, T, N]\n");
    assert!(peak_bytes(&source, Fusion::Attention) < SCORES);
}

#[test]
fn going_back_scores_are_computed_again() {
    let source = format!("{ATTENTION}Loss = sum_{{B,T,N,H}}(o * o)\nbackward from Loss\n");
    let flops = |fusion| {
        fused(&source, fusion)
            .report
            .steps
            .iter()
            .map(|step| step.flops + step.recomputed_flops)
            .sum::<f64>()
    };
    // One product more, of H, masked by half.
    let product = 0.5 * 2.0 * 64.0 * SCORES / 2.0;
    let more = flops(Fusion::Attention) - flops(Fusion::ElementWise);
    assert!((more - product).abs() <= 1e-6 * product, "{more} {product}");
}

/// Scores of latent attention: a part with positions and one without, each by its own product.
#[test]
fn scores_may_be_a_sum_of_products() {
    let source = |end: &str| {
        format!(
            "hardware h100\nmesh X=8\ndim B=8, T=4096, S=T, N=16, H=64, R=32\n\
             input q[B_X, T, N, H], r[B_X, T, N, R], k[B_X, S, N, H], kr[B_X, S, R]\n\
             input v[B_X, S, N, H], do[B_X, T, N, H]\n\
             s = (q *H k + r *R kr) * 0.1\no = softmax_S(causal_{{T,S}}(s)) *S v\n{end}"
        )
    };
    let forward = source("output o[B_X, T, N, H]\n");
    let training = source(
        "backward from o given do\noutput dq[B_X, T, N, H], dr[B_X, T, N, R], dk[B_X, S, N, H]\n\
         output dkr[B_X, S, R], dv[B_X, S, N, H]\n",
    );
    // Each operand once, and the result.
    let read = 2.0 * 4096.0 * f64::from(16 * (4 * 64 + 32) + 32);
    assert_eq!(traffic(&forward, Fusion::Attention).to_bits(), read.to_bits());
    for source in [&forward, &training] {
        assert!(peak_bytes(source, Fusion::Attention) < SCORES, "{source}");
    }
    let plan = fused(&training, Fusion::Attention);
    let steps = &plan.report.steps;
    let flops: f64 = steps.iter().map(|step| step.flops).sum();
    let again: f64 = steps.iter().map(|step| step.recomputed_flops).sum();
    // Masked by half: three forward, and three times two back; the scores' two once more.
    let (scores, values) = (f64::from(64 + 32) * SCORES / 2.0, 64.0 * SCORES / 2.0);
    let near = |a: f64, b: f64| (a - b).abs() <= 0.05 * b;
    assert!(near(flops, 3.0 * (scores + values)), "{flops}");
    assert!((again - scores).abs() <= 1e-9 * scores, "{again} {scores}");
    // A statement of the forward part is in no kernel of the backward part.
    let text = plan.to_string();
    let (before, after) = text.split_once("phase backward").expect("it has gradients");
    assert!(before.contains("in k1") && !before.contains("in k2"), "{text}");
    assert!(after.contains("in k2") && !after.contains("in k1"), "{text}");
}

/// Latents are keys and values: read once, whichever way they are split, and as often as products
/// read them where these are kernels of their own.
#[test]
fn attention_reads_keys_that_are_values_once() {
    let source = |mesh: &str, c: &str| {
        format!(
            "hardware h100\nmesh {mesh}\ndim B=8, T=64, S=4096, H=512\ninput q[{c}T, H]\n\
                state c[{c}S, H]\noutput y[{c}T, H] = softmax_S(0.1 * (q *H c)) *S c\n"
        )
    };
    let bytes = |elements: u64| 2.0 * elements as f64;
    let (rows, latents, scores) = (64 * 512, 4096 * 512, 64 * 4096);
    let own = source("X=1", "");
    let read = bytes(2 * rows + latents);
    assert_eq!(traffic(&own, Fusion::Attention).to_bits(), read.to_bits());
    assert!(traffic(&own, Fusion::ElementWise) > read + bytes(latents + scores));
    let split = source("X=8", "B_X, ");
    assert_eq!(traffic(&split, Fusion::Attention).to_bits(), read.to_bits());
    // A printed plan has the same kernels, and other values are read each on their own.
    let again = fused(&fused(&own, Fusion::Attention).to_string(), Fusion::Attention);
    let of_plan: f64 = again.report.steps.iter().map(|step| step.bytes).sum();
    assert_eq!(of_plan.to_bits(), read.to_bits());
    let two = own.replace("state c", "state v[S, H], c").replace("*S c", "*S v");
    assert_eq!(traffic(&two, Fusion::Attention).to_bits(), (read + bytes(latents)).to_bits());
}

/// A proven optimum is what the plan's own steps cost, by a report that knows nothing of the
/// search.
/// The operations of kernels that could not begin, since they wait for each other.
fn waiting(program: &Program) -> Vec<String> {
    let mut left: Vec<OpId> = program.ops.indices().collect();
    loop {
        let waits = |op: &OpId| {
            let number = program.ops[*op].kernel.number;
            let is_its =
                |other: OpId| number.is_some() && program.ops[other].kernel.number == number;
            let kernel = left.iter().filter(|&&other| other == *op || is_its(other));
            let mut reads = kernel.flat_map(|&other| &program.ops[other].operands);
            reads.any(|operand| {
                let made = |&other: &OpId| program.ops[other].result == operand.value;
                left.iter().any(|other| made(other) && other != op && !is_its(*other))
            })
        };
        let next: Vec<OpId> = left.iter().copied().filter(waits).collect();
        if next.len() == left.len() {
            let name = |op: &OpId| program.values[program.ops[*op].result].name.clone();
            return next.iter().map(name).collect();
        }
        left = next;
    }
}

/// The gradient of a maximum is one number a row, computed between sums over the scores.
#[test]
fn no_kernel_waits_for_itself() {
    let written = "hardware h100\nmesh X=1\ndim B=8, T=1024, S=T, N=8, H=64\n\
        input q[B, T, N, H], k[B, S, N, H], v[B, S, N, H], do[B, T, N, H]\n\
        L = q *H k\nm = max_S(L)\ne = exp(L - m)\nP = e / sum_S(e)\no = P *S v\n\
        backward from o given do\noutput dq[B, T, N, H], dk[B, S, N, H], dv[B, S, N, H]\n";
    let layers = files("tests/programs/layers", ".shard").into_iter();
    let attention = files("tests/programs/attention", ".shard").into_iter();
    let programs = layers.chain(attention).map(|(_, source)| source);
    for source in programs.chain([written.to_owned()]) {
        let planned = fused(&source, Fusion::Attention);
        assert_eq!(waiting(&planned.plan.program), Vec::<String>::new(), "{source}");
    }
}

/// The gradients of both norms are passes over the same rows.
#[test]
fn gradients_of_a_norm_of_a_norm_are_one_kernel() {
    let head =
        "hardware tpu-v5p\nmesh X=1\ndim B=16, T=512, D=1024\ninput x[B, T, D], dz[B, T, D]\n";
    let written = format!(
        "{head}param s1[D], s2[D]\nh = rmsnorm_D(x) * s1\nz = rmsnorm_D(h) * s2\n\
            backward from z given dz\noutput dx[B, T, D]\n"
    );
    let array = 2.0 * 16.0 * 512.0 * 1024.0;
    // Forward: x, h; h, z. Back: the gradients of scales read two arrays each, and the kernel reads
    // dz, h, x and both norms, and writes dh and dx.
    let arrays = traffic(&written, Fusion::Attention) / array;
    assert!((arrays - (4.0 + 4.0 + 7.0)).abs() < 0.1, "{arrays}");
}

#[test]
fn the_search_prices_kernels_as_the_report_does() {
    let mut proven = 0;
    for folder in ["book", "layers"] {
        for (name, source) in files(&format!("tests/programs/{folder}"), ".shard") {
            for fusion in [Fusion::ElementWise, Fusion::Attention] {
                let plan = fused(&source, fusion);
                let json = plan.json();
                if json.optimality.status == "optimal" {
                    let (bound, serial) = (json.optimality.lower_bound_s, json.cost.serial_s);
                    assert!((bound - serial).abs() <= 1e-9 * serial, "{name}: {bound} {serial}");
                    proven += 1;
                }
                let alone = fused(&source, Fusion::None).report.serial_s;
                let is_cheaper = plan.report.serial_s <= alone * (1.0 + 1e-9);
                assert!(is_cheaper || fusion == Fusion::Attention, "{name}");
            }
        }
    }
    assert!(proven > 20, "{proven}");
}

/// A plan on one device whose two statements name the same kernel.
fn in_one_kernel(declared: &str, first: &str, second: &str) -> Vec<String> {
    let text = format!(
        "plan\nhardware h100\nmesh X=2\ndim I=64, J=64, K=64, L=64\n{declared}\n\
         {first} in k1\n{second} in k1\noutput {}\n",
        second.split(" = ").next().unwrap_or_default()
    );
    let found = shardwise::check("plan", &text, &Options::default()).findings.reports;
    found.iter().map(|report| report.diag.code.to_owned()).collect()
}

#[test]
fn statements_of_a_plan_share_a_kernel_only_where_fusion_lets_them() {
    let given = "input A[I, J], B[J, K], D[K, L]";
    let product = "C[I, K] = A[I, J] *J B[J, K]";
    assert_eq!(in_one_kernel(given, product, "E[I, L] = C[I, K] *K D[K, L]"), ["SW116"]);
    assert_eq!(in_one_kernel(given, product, "E[K, L] = gelu(D[K, L])"), ["SW116"]);
    assert_eq!(in_one_kernel(given, product, "E[I, K] = gelu(C[I, K])"), [""; 0]);
    let split = "input A[I_X, J]";
    let gather = "E[I, J] = AllGather_X(C[I_X, J])";
    assert_eq!(in_one_kernel(split, "C[I_X, J] = gelu(A[I_X, J])", gather), ["SW116"]);
}

/// A device that makes all of `dx` reads all of `y` and `dy` for it, even where it has reduced
/// slices of them before: it was charged for the slices.
#[test]
fn a_kernel_is_charged_for_all_that_it_reads() {
    let source = "hardware tpu-v5p\nmesh X=4\ndim B=4096, D=8192\ninput x[B, D], dy[B, D]\n\
        y = rmsnorm_D(x)\nbackward from y given dy\noutput dx[B, D]\n";
    let planned = planned(source, &Options::default());
    let bytes: f64 = planned.report.steps.iter().map(|cost| cost.bytes).sum();
    // `x` is read and `y` is written; `y` and `dy` are read, and `dx` is written.
    assert!(bytes >= 5.0 * 2.0 * 4096.0 * 8192.0, "{planned}");
    assert_eq!(planned.status_name(), "optimal");
}

/// A kernel takes the fixed time of its product, also where it begins with what the product reads.
#[test]
fn what_a_product_reads_makes_its_kernel_no_shorter() {
    let seconds = |operand: &str| {
        let source = format!(
            "hardware h100, rates=measured\nmesh X=1\ndim B=16, D=64, F=64\ninput x[B, D]\n\
             param W[D, F]\nz = {operand} *D W\noutput z[B, F]\n"
        );
        fused(&source, Fusion::Attention).report.serial_s
    };
    assert!((seconds("relu(x)") / seconds("x") - 1.0).abs() < 0.01);
}

/// A product reads its operands several times, the narrow copy rather than what it is made of.
#[test]
fn a_cast_to_fewer_bits_is_written_before_a_product_reads_it() {
    let source = "hardware h100\nmesh X=1\ndim B=1024, D=1024, F=1024\ninput x[B, D]\n\
        param W: fp8[D, F]\nz: bf16[B, F] = cast<fp8>(x) *D W\noutput z[B, F]\n";
    let elements: f64 = 1024.0 * 1024.0;
    // The cast: 2 + 1 bytes of each; the product: 1 + 1 + 2.
    assert_eq!(traffic(source, Fusion::Attention).to_bits(), (7.0 * elements).to_bits());
}

/// Optimizers are kernels of their own: gradients are written, and what the products read that
/// they come from is free before the updates at the end.
#[test]
fn updates_read_gradients_from_memory() {
    let source = "hardware h100\nmesh X=1\ndim B=4096, D=1024, F=4096\n\
        input x[B, D], dy[B, D]\nparam W1[D, F], W2[F, D]\ny = gelu(x *D W1) *F W2\n\
        backward from y given dy\noptimizer adam\noutput y[B, D]\n";
    let plan = fused(source, Fusion::Attention).plan;
    let kernel_of = |name: &str| {
        let op = plan.program.ops.iter().find(|op| plan.program.values[op.result].name == name);
        op.expect("it is computed").kernel.number
    };
    for (gradient, update) in [("dW1", "W1.new"), ("dW2", "W2.new")] {
        assert_ne!(kernel_of(gradient), kernel_of(update), "{update}");
        assert!(kernel_of(update).is_some());
    }
}

/// Positions are counted, and masks of positions and labels are compared again going back.
#[test]
fn masks_are_neither_read_nor_kept() {
    let head =
        "hardware h100\nmesh X=1\ndim B=1024, V=4096\nparam x[B, V]\ninput t: int32[B], dy[B, V]\n";
    let moved = |body: &str| traffic(&format!("{head}{body}"), Fusion::Attention);
    let array: f64 = 2.0 * 1024.0 * 4096.0;
    let counted = moved("p = position_V(x)\noutput p[B, V]\n");
    assert_eq!(counted.to_bits(), (2.0 * array).to_bits(), "int32, written alone");
    let masked = "m = t == position_V(x)\ny = select(m, x, 0.0)\n";
    let forward = moved(&format!("{masked}output y[B, V]\n"));
    let both = moved(&format!("{masked}backward from y given dy\noutput y[B, V]\n"));
    assert!((forward / array - 2.0).abs() < 0.01, "x and y");
    assert!((both / array - 4.0).abs() < 0.01, "and dy and dx: {}", both / array);
}
