"""A step of a serving engine as a program of shardwise, for the models of `compare_serving.py`.

One program has all that an engine runs in a step: `B` requests that decode a token each against
caches of the mean context, and a chunk of `C` prompt tokens, which see half of their prompt on
average; all tokens pass through the same products. It has the kernels that engines have:

* Queries, keys and values are one product, gates and inputs of the feed-forward network another.
  The gate is one pass over both halves, written as a sum of them, which reads and writes as much.
* Partial sums are reduced where a residual is added, in bf16 whatever the products multiply, since
  engines do not scatter them, and do not add in fp8. What a token gets from its experts is added
  up on each device first.
* What products of fp8 and fp4 read is quantized by kernels of their own where engines cannot do
  that in the kernel before (`Setting.quantizes_alone`); tables of such kernels say that a product
  of blocks of fp8 takes 2 us longer than one of bf16, and the quantizing pass takes about that.
* The router's choice and the counts of tokens for each expert are kernels of their own.
* Every device samples from the logits of all, which are gathered and read in 32 bits.

Experts: those that a step's tokens choose are read, each with as many tokens as the mean. Some are
chosen more often than others (`SPREAD`): fewer are read in decode, and the busiest group of those
that are spread over devices has more tokens than the mean, see `imbalance`.
"""

import math
import re
from statistics import NormalDist
from typing import NamedTuple

import engine_rates

# Real tokens prefer some experts: the standard deviation of how often experts are chosen, over the
# mean. A round number, and not fitted to any point. The tables of kernels have experts under loads
# that follow a power law; beside even loads, their times for 8 to 32 tokens (128 experts, 8 chosen,
# TensorRT-LLM on H200) are those of as many experts as are read at a spread of 0.4 to 1.4.
SPREAD = 1.0
# The same of the logarithm, where the shares are log-normal.
SIGMA = math.sqrt(math.log(1 + SPREAD**2))


class Setting(NamedTuple):
    """A measured point: an engine's setting, and its times."""

    id: str
    model: str
    path: str
    system: str
    chip: str
    backend: str
    version: str
    dtype: str
    isl: int
    osl: int
    prompt: float
    batch: int
    tp: int
    dp: int
    moe_tp: int
    moe_ep: int
    searched: bool
    ttft_ms: float
    tpot_ms: float

    def is_consistent(self):
        """Whether the sizes are of one node, and those of experts of the same devices."""
        devices = self.tp * self.dp
        has_experts = MODELS[self.model].experts > 0
        spread = self.moe_tp * self.moe_ep
        split = not has_experts or spread == devices
        return 0 < devices <= 8 and split and self.ttft_ms < 20e3 and self.sharding() is not None

    @property
    def hardware(self):
        """The chip with the kernels of the engine, see `engine_rates.py`."""
        return engine_rates.name(self.chip, self.backend, self.tp)

    def quantizes_alone(self):
        """Whether the engine quantizes what products read in kernels of their own.

        With one scale for all numbers, that is part of the norm or attention before it, and
        TensorRT-LLM does the same with blocks of fp4. Blocks of fp8, and scales that SGLang
        computes for each token, take a kernel.
        """
        if self.dtype == "fp4":
            return self.backend != "trtllm"
        return self.dtype == "fp8" and (
            MODELS[self.model].is_quantized or self.backend == "sglang")

    def is_even(self):
        """Whether all requests have the same lengths."""
        return self.prompt == self.isl

    def sharding(self):
        """Axes X (replicas of attention), Y and Z, with the axes of experts and of their width."""
        if not MODELS[self.model].experts:
            return (self.dp, self.tp, 1, "", "YZ") if self.dp == 1 else None
        if self.dp == 1:
            return (1, self.moe_ep, self.moe_tp, "Y", "Z")
        if self.moe_ep == self.tp * self.dp:
            return (self.dp, self.tp, 1, "XY", "")
        if self.moe_ep == 1:
            return (self.dp, self.tp, 1, "", "XY")
        return None


class Model(NamedTuple):
    """Sizes of a model."""

    names: tuple
    package: str
    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    experts: int = 0
    chosen: int = 0
    shared: int = 0
    window: int = 0
    latent: int = 0
    dense_layers: int = 0
    dense_hidden: int = 0
    is_quantized: bool = False
    has_head_norms: bool = False


MODELS = {
    "Llama-3.1-8B": Model(
        ("Llama-3.1-8B",), "meta-llama/Meta-Llama-3.1-8B", 32, 4096, 14336, 32, 8, 128, 128256),
    "Llama-3.1-70B": Model(
        ("Llama-3.1-70B", "Llama-3.3-70B"), "meta-llama/Meta-Llama-3.1-70B", 80, 8192, 28672, 64,
        8, 128, 128256),
    "Qwen3-32B": Model(
        ("Qwen3-32B",), "Qwen/Qwen3-32B", 64, 5120, 25600, 64, 8, 128, 151936,
        has_head_norms=True),
    "Qwen3-235B-A22B": Model(
        ("Qwen3-235B-A22B",), "Qwen/Qwen3-235B-A22B-FP8", 94, 4096, 1536, 64, 4, 128, 151936,
        experts=128, chosen=8, is_quantized=True, has_head_norms=True),
    "gpt-oss-120b": Model(
        ("gpt-oss-120b",), "openai/gpt-oss-120b", 36, 2880, 2880, 64, 8, 64, 201088, experts=128,
        chosen=4, window=128, is_quantized=True),
    "DeepSeek-R1": Model(
        ("DeepSeek-R1",), "deepseek-ai/DeepSeek-R1", 61, 7168, 2048, 128, 128, 128, 129280,
        experts=256, chosen=8, shared=1, latent=512, dense_layers=3, dense_hidden=18432),
}


def is_model(name, row):
    """Whether a row of the points is of a model."""
    return any(part.lower() in row["model_path"].lower() for part in MODELS[name].names)


def dtype(name, row):
    """What weights are stored in; bf16 where a row has no precision."""
    if name == "gpt-oss-120b":
        return "mxfp4"
    given = row["precision"] or row["gemm_quant_mode"]
    return {"fp8": "fp8", "fp8_block": "fp8", "fp4": "fp4", "nvfp4": "fp4"}.get(given, "bf16")


def sizes(**dims):
    """A statement of sizes."""
    return "dim " + ", ".join(f"{name}={max(1, round(size))}" for name, size in dims.items())


def without(line, axes):
    """A statement without axes of one device, over which nothing is split."""

    def fewer(subscripts):
        left = "".join(axis for axis in subscripts[1] if axis not in axes)
        return f"_{left}" if left else ""

    return re.sub(r"_([XYZ]+)\b", fewer, line).replace(" {U}", "")


class Step:
    """The program of one step."""

    def __init__(self, point, batch, context, chunk):
        self.point, self.model = point, MODELS[point.model]
        self.x, self.y, self.z, self.expert_axes, self.width_axes = point.sharding()
        self.batch = batch * self.x
        # Every replica of attention prefills its own chunk.
        self.context, self.chunk = max(1, round(context)), round(chunk) * self.x
        self.tokens = max(1, self.batch + self.chunk)
        self.weights = {"mxfp4": "bf16"}.get(point.dtype, point.dtype)
        # Activations stay bf16 where Hopper multiplies with mxfp4.
        self.expert_weights = {"mxfp4": "int4"}.get(point.dtype, self.weights)
        # TensorRT-LLM stores caches in fp8 where weights are quantized, the others in bf16.
        quantized = point.dtype in ("fp8", "fp4")
        self.cache = "fp8" if quantized and point.backend == "trtllm" else "bf16"
        self.lines, self.dims = [], {}

    def add(self, *lines):
        self.lines += lines

    def is_cast(self, weights):
        """Whether products run in the dtype of their weights."""
        return weights != "bf16" and self.point.dtype != "mxfp4"

    def quantized(self, value, weights):
        """The left operand of a product in the dtype that the product runs in."""
        return f"cast<{weights}>({value})" if self.is_cast(weights) else value

    def quantizes(self, name, value, weights, kept="M_X", width="D"):
        """A pass of its own that quantizes what several products read, and the name of its width;
        see `quantizes_alone`."""
        if not self.is_cast(weights) or not self.point.quantizes_alone():
            self.add(f"  {name} = {value}")
            return width
        self.dims[f"{width}q"] = self.dims[width]
        self.add(f"  {name}[{kept}, {width}q] = "
                 f"slice_{{{width}->{width}q}}({self.quantized(value, weights)}, 0)")
        return f"{width}q"

    def product(self, left, contracted, right, weights):
        """A product whose result is bf16, of a left operand that may be quantized already."""
        if not contracted.endswith("q"):
            left = self.quantized(left, weights)
        written = f"({left}) *{contracted} {right}"
        return written if weights == "bf16" else f"cast<bf16>({written})"

    def added(self, name, dims, axes, left, contracted, right, weights):
        """A product whose partial sums are added over the links in bf16, whatever it multiplies."""
        if not contracted.endswith("q"):
            left = self.quantized(left, weights)
        self.add(f"  {name}: bf16[{dims}] {{U_{axes}}} = ({left}) *{contracted} {right}")

    def text(self):
        """The whole program."""
        model, tp = self.model, self.y * self.z
        kv_heads = max(model.kv_heads, tp)
        self.dims = dict(
            M=self.tokens, S=self.context, D=model.width, V=model.vocabulary, H=model.head_dim,
            U=2)
        if self.batch:
            self.dims["B"] = self.batch
        if self.chunk:
            # A chunk's tokens see all before them: half of the prompt on average.
            self.dims["C"] = self.chunk
            self.dims["E0"] = max(1, self.point.prompt / 2)
        if model.latent:
            self.dims.update(N=model.heads, Q=1536, L0=model.latent, W=model.latent + 64, H2=192,
                             H3=256)
        else:
            self.dims.update(K=kv_heads, G=model.heads // kv_heads,
                             R=model.heads // kv_heads + 2)
        self.add("input x0[M_X, D]", "x[M_X, D] = 1 * x0")
        dense = model.dense_layers or (0 if model.experts else model.layers)
        if dense:
            self.dims["F"] = model.dense_hidden or model.hidden
            self.block("d", dense, self.dense)
        if model.experts:
            self.expert_sizes()
            self.add(f"input like[M{'' if 'X' in self.width_axes else '_X'}, "
                     f"P{self.width_axes and '_' + self.width_axes}, D]")
            window = model.window and 2
            self.block("e", (model.layers - dense) // (window or 1), self.routed)
        self.add("param Unembed[D, V_YZ], nf[D]")
        rows = max(1, self.batch or self.x)
        last = "x"
        if rows < self.tokens and rows % self.x == 0:
            self.dims["Last"] = rows
            self.add("last[Last_X, D] = slice_{M->Last}(x, 0)")
            last = "last"
        rows_dim = "Last" if last == "last" else "M"
        # Every device samples, from the logits of all in 32 bits.
        self.add(f"logits[{rows_dim}_X, V] = (rmsnorm_D({last}) * nf) *D Unembed",
                 "chances = softmax_V(cast<f32>(logits))",
                 f"output chances[{rows_dim}_X, V]")
        axes = {"X": self.x, "Y": self.y, "Z": self.z}
        unused = [axis for axis, size in axes.items() if size == 1]
        mesh = ", ".join(f"{axis}={axes[axis]}" for axis in axes if axis not in unused) or "Y=1"
        lines = [without(line, unused) for line in self.lines]
        hardware = f"hardware {self.point.hardware}, rates=measured"
        head = [hardware, f"mesh {mesh}", sizes(**self.dims)]
        return "\n".join(head + lines) + "\n"

    def block(self, name, layers, feed_forward):
        """Layers of attention and of a feed-forward network."""
        self.add(f"repeat L{name}={layers} {{", "  carry x")
        halves = [0, self.model.window] if self.model.window else [0]
        for number, window in enumerate(halves):
            self.attention(f"{name}{number}", window)
            feed_forward(f"{name}{number}")
        self.add("}")

    def attention(self, tag, window):
        """Attention, of grouped heads or of latent caches."""
        (self.latent if self.model.latent else self.grouped)(tag, window)

    def grouped(self, tag, window):
        """Attention of grouped heads; the halves of what is projected take the kernels that rotate
        queries and write caches."""
        w = self.weights
        self.add(f"  param n1{tag}[D]")
        d = self.quantizes(f"a{tag}", f"rmsnorm_D(x) * n1{tag}", w)
        self.add(
            f"  param wqkv{tag}: {w}[{d}, K_YZ, R, H]",
            f"  qkv{tag} = {self.product(f'a{tag}', d, f'wqkv{tag}', w)}",
            *self.halves(tag))
        both = self.batch and self.chunk
        parts = []
        if self.batch:
            rows = "B" if both else "M"
            keys = "Sw" if window else "S"
            self.dims["Sw"] = max(1, window)
            self.add(f"  state kc{tag}: {self.cache}[{rows}_X, {keys}, K_YZ, H], "
                     f"vc{tag}: {self.cache}[{rows}_X, {keys}, K_YZ, H]")
            query = f"qd{tag}" if both else f"q{tag}"
            if both:
                self.add(f"  qd{tag}[B_X, K_YZ, G, H] = slice_{{M->B}}(q{tag}, 0)")
            self.add(f"  od{tag} = softmax_{keys}(0.1 * ({query} *H kc{tag})) *{keys} vc{tag}")
            parts.append(f"od{tag}")
        if self.chunk:
            rows = "C" if both else "M"
            keys = "Ew" if window else "E0"
            self.dims["Ew"] = max(1, window)
            self.add(f"  state kp{tag}[{keys}, K_YZ, H], vp{tag}[{keys}, K_YZ, H]")
            query = f"qc{tag}" if both else f"q{tag}"
            if both:
                self.add(f"  qc{tag}[C_X, K_YZ, G, H] = slice_{{M->C}}(q{tag}, {self.batch})")
            self.add(f"  oc{tag} = softmax_{keys}(0.1 * ({query} *H kp{tag})) *{keys} vp{tag}")
            parts.append(f"oc{tag}")
        self.joined(tag, parts, "K_YZ, G", "H", w)
        self.add(f"  output kv{tag}[M_X, K_YZ, U, H]")

    def halves(self, tag):
        """Queries, and keys with values, normalized by heads in some models."""
        if not self.model.has_head_norms:
            return (f"  q{tag}[M_X, K_YZ, G, H] = slice_{{R->G}}(qkv{tag}, 0)",
                    f"  kv{tag}[M_X, K_YZ, U, H] = slice_{{R->U}}(qkv{tag}, {self.dims['G']})")
        return (f"  param nq{tag}[H], nk{tag}[H]",
                f"  q{tag} = rmsnorm_H(slice_{{R->G}}(qkv{tag}, 0)) * nq{tag}",
                f"  kv{tag} = rmsnorm_H(slice_{{R->U}}(qkv{tag}, {self.dims['G']})) * nk{tag}")

    def joined(self, tag, parts, heads, width, weights):
        """The results of decode and chunk together, through the product that ends attention."""
        result = parts[0]
        if len(parts) == 2:
            self.add(f"  o{tag}[M_X, {heads}, {width}] = concat_{{B,C->M}}({', '.join(parts)})")
            result = f"o{tag}"
        size = self.quantizes(f"v{tag}", result, weights, f"M_X, {heads}", width)
        contracted = heads.replace("_YZ", "").replace(" ", "") + f",{size}"
        self.add(f"  param wo{tag}: {weights}[{heads}, {size}, D]")
        self.added(f"p{tag}", "M_X, D", "YZ", f"v{tag}", contracted, f"wo{tag}", weights)
        self.add(f"  y{tag}[M_X, D] = x + p{tag}")

    def latent(self, tag, _):
        """Latent attention with its projections absorbed; prefill with the same FLOPs a head."""
        w = self.weights
        self.add(f"  param n1{tag}[D], nq{tag}[Q], nk{tag}[W]")
        d = self.quantizes(f"a{tag}", f"rmsnorm_D(x) * n1{tag}", w)
        self.add(
            f"  param wd{tag}: {w}[{d}, Q], wc{tag}: {w}[{d}, W]",
            f"  qd{tag} = {self.product(f'a{tag}', d, f'wd{tag}', w)}")
        q = self.quantizes(f"qa{tag}", f"rmsnorm_Q(qd{tag}) * nq{tag}", w, width="Q")
        self.add(
            f"  param wu{tag}: {w}[{q}, N_YZ, H2], wk{tag}[N_YZ, H2, W], wv{tag}[N_YZ, W, H]",
            f"  q{tag} = {self.product(f'qa{tag}', q, f'wu{tag}', w)}",
            f"  c{tag} = {self.product(f'a{tag}', d, f'wc{tag}', w)}",
            f"  kv{tag}[M_X, W] = rmsnorm_W(c{tag}) * nk{tag}")
        both = self.batch and self.chunk
        parts = []
        if self.batch:
            rows, query = ("B", f"qb{tag}") if both else ("M", f"q{tag}")
            if both:
                self.add(f"  qb{tag}[B_X, N_YZ, H2] = slice_{{M->B}}(q{tag}, 0)")
            self.add(f"  state kc{tag}: {self.cache}[{rows}_X, S, W]",
                     f"  qw{tag} = {query} *H2 wk{tag}",
                     f"  od{tag} = (softmax_S(0.1 * (qw{tag} *W kc{tag})) *S kc{tag}) *W wv{tag}")
            parts.append(f"od{tag}")
        if self.chunk:
            query = f"qc{tag}" if both else f"q{tag}"
            if both:
                self.add(f"  qc{tag}[C_X, N_YZ, H2] = slice_{{M->C}}(q{tag}, {self.batch})")
            # Keys and values of a prompt are computed from what is cached.
            c = self.quantizes(f"kq{tag}", f"kv{tag}", w, width="W")
            self.add(f"  param wb{tag}: {w}[{c}, N_YZ, H3]",
                     f"  kx{tag} = {self.product(f'kq{tag}', c, f'wb{tag}', w)}",
                     f"  output kx{tag}[M_X, N_YZ, H3]",
                     f"  state kp{tag}[E0, N_YZ, H2], vp{tag}[E0, N_YZ, H]",
                     f"  oc{tag} = softmax_E0(0.1 * ({query} *H2 kp{tag})) *E0 vp{tag}")
            parts.append(f"oc{tag}")
        self.joined(tag, parts, "N_YZ", "H", w)
        self.add(f"  output kv{tag}[M_X, W]")

    def dense(self, tag):
        """A gated feed-forward network."""
        w = self.weights
        self.add(f"  param n2{tag}[D]")
        d = self.quantizes(f"m{tag}", f"rmsnorm_D(y{tag}) * n2{tag}", w)
        self.add(
            f"  param wi{tag}: {w}[{d}, F_YZ, U], wf{tag}: {w}[F_YZ, D]",
            f"  h{tag} = {self.product(f'm{tag}', d, f'wi{tag}', w)}",
            # The gate is one pass over both halves, and so is this sum.
            f"  g{tag} = sum_U(silu(h{tag}))")
        self.added(f"f{tag}", "M_X, D", "YZ", f"g{tag}", "F", f"wf{tag}", w)
        self.add(f"  x[M_X, D] = y{tag} + f{tag}")

    def expert_sizes(self):
        """How many experts a step's tokens choose, and how many tokens each of them has."""
        model = self.model
        groups = math.prod({"X": self.x, "Y": self.y}[axis] for axis in self.expert_axes)
        share = model.chosen / model.experts
        # How often each is chosen: evenly spaced quantiles of a log-normal distribution.
        shares = (share * math.exp(SIGMA * NormalDist().inv_cdf((n + 0.5) / model.experts)
                                   - SIGMA**2 / 2) for n in range(model.experts))
        active = sum(1 - (1 - min(1, own)) ** self.tokens for own in shares)
        active = max(groups, round(active / groups) * groups)
        tokens = self.tokens * model.chosen / active * self.imbalance(groups)
        parts = math.prod({"X": self.x, "Y": self.y, "Z": self.z}[a] for a in self.width_axes)
        self.dims.update(A=min(active, model.experts), T=math.ceil(tokens), P=parts,
                         F2=model.hidden // parts, Ex=model.experts, Chosen=model.chosen)
        if model.shared:
            self.dims["F3"] = model.hidden * model.shared

    def imbalance(self, groups):
        """Load of the busiest of groups of experts over the mean, by the normal approximation: that
        of experts with unequal shares, and of random choices."""
        if groups == 1:
            return 1.0
        mean = self.tokens * self.model.chosen / groups
        return 1 + math.sqrt(2 * math.log(groups) * (SPREAD**2 * groups / self.model.experts
                                                     + 1 / mean))

    def routed(self, tag):
        """Experts: tokens are sent to those that they choose, and summed.

        Devices that share an expert have a part P of its width each, and add up what a token gets
        from all of its experts, not what it gets from each.
        """
        w, e = self.expert_weights, f"A_{self.expert_axes}" if self.expert_axes else "A"
        p = f"P_{self.width_axes}" if self.width_axes else "P"
        self.add(
            f"  param wr{tag}[D, Ex], n2{tag}[D]",
            f"  m{tag} = rmsnorm_D(y{tag}) * n2{tag}")
        d = self.quantizes(f"mq{tag}", f"m{tag}", w)
        self.add(
            f"  param wg{tag}: {w}[{e}, {d}, {p}, F2], wi{tag}: {w}[{e}, {d}, {p}, F2]",
            f"  param wf{tag}: {w}[{e}, {p}, F2, D]",
            f"  input ids{tag}: int32[{e}, T]",
            f"  r{tag} = softmax_Ex(m{tag} *D wr{tag})",
            f"  best{tag}[M_X, Chosen] = topk_{{Ex->Chosen}}(r{tag})",
            f"  sent{tag}[Ex] = sum_M(r{tag})",
            f"  t{tag}[{e}, T, {d}] = take_M(mq{tag}, ids{tag})",
            f"  u{tag} = {self.product(f't{tag}', d, f'wi{tag}', w)}",
            f"  g{tag} = silu({self.product(f't{tag}', d, f'wg{tag}', w)}) * u{tag}",
            f"  z{tag} = {self.product(f'g{tag}', 'F2', f'wf{tag}', w)}",
            f"  s{tag} = sum_P(put_M(z{tag}, ids{tag}, like))",
            f"  output best{tag}[M_X, Chosen], sent{tag}[Ex]")
        total = f"y{tag} + s{tag}"
        if self.model.shared:
            v = self.weights
            self.add(
                f"  param ws{tag}: {v}[{d}, F3_YZ, U], wt{tag}: {v}[F3_YZ, D]",
                f"  cs{tag} = {self.product(f'mq{tag}', d, f'ws{tag}', v)}",
                f"  cg{tag} = sum_U(silu(cs{tag}))")
            self.added(f"f{tag}", "M_X, D", "YZ", f"cg{tag}", "F3", f"wt{tag}", v)
            total += f" + f{tag}"
        self.add(f"  x[M_X, D] = {total}")


def step(point, batch, context, chunk):
    """The program of a step that decodes `batch` requests of a replica beside a chunk of prompt."""
    return Step(point, batch, context, chunk).text()
