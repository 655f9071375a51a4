"""LLaMA: grouped heads, rotary embeddings, RMS norms, gated MLPs, layers by scan."""

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, VOCABULARY, LENGTH, WIDTH = 2, 48, 8, 32
KV_HEADS, GROUPS, HEAD, HIDDEN = 2, 2, 8, 96


def init():
    shapes = {
        "input_norm": (WIDTH,),
        "wq": (WIDTH, KV_HEADS * GROUPS * HEAD),
        "wk": (WIDTH, KV_HEADS * HEAD),
        "wv": (WIDTH, KV_HEADS * HEAD),
        "wo": (KV_HEADS * GROUPS * HEAD, WIDTH),
        "mlp_norm": (WIDTH,),
        "gate": (WIDTH, HIDDEN),
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
    }
    random = np.random.default_rng(0)
    draw = lambda shape: random.normal(size=shape).astype(np.float32) / 5
    return {
        "embed": draw((VOCABULARY, WIDTH)),
        "layers": {name: draw((LAYERS, *shape)) for name, shape in shapes.items()},
        "norm": draw((WIDTH,)),
        "head": draw((WIDTH, VOCABULARY)),
    }


def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def rotate(x, positions):
    half = x.shape[-1] // 2
    frequencies = 10000.0 ** (-jnp.arange(half) / half)
    angles = positions[:, None] * frequencies
    cos, sin = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def attention(x, layer):
    batch, length, _ = x.shape
    positions = jnp.arange(length)
    q = (x @ layer["wq"]).reshape(batch, length, KV_HEADS * GROUPS, HEAD)
    k = (x @ layer["wk"]).reshape(batch, length, KV_HEADS, HEAD)
    v = (x @ layer["wv"]).reshape(batch, length, KV_HEADS, HEAD)
    q = rotate(q, positions).reshape(batch, length, KV_HEADS, GROUPS, HEAD)
    k = rotate(k, positions)
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k) * HEAD**-0.5
    mask = positions[:, None] >= positions[None, :]
    scores = jnp.where(mask, scores, -jnp.inf)
    probs = jax.nn.softmax(scores, axis=-1)
    out = jnp.einsum("bkgts,bskh->btkgh", probs, v)
    return out.reshape(batch, length, -1) @ layer["wo"]


def block(x, layer):
    x = x + attention(rms_norm(x, layer["input_norm"]), layer)
    h = rms_norm(x, layer["mlp_norm"])
    return x + (jax.nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"], None


def forward(params, ids):
    x = params["embed"][ids]
    x, _ = jax.lax.scan(block, x, params["layers"])
    return rms_norm(x, params["norm"]) @ params["head"]


def example():
    random = np.random.default_rng(1)
    return init(), random.integers(0, VOCABULARY, (4, LENGTH)).astype(np.int32)
