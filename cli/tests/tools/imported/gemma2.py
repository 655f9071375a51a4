"""Gemma 2: soft caps, norms around each part, a local and a global layer in each step of a scan."""

import jax
import jax.numpy as jnp
import numpy as np

PAIRS, VOCABULARY, LENGTH, WIDTH, KV_HEADS, GROUPS, HEAD, HIDDEN = 2, 40, 8, 24, 2, 3, 8, 64
WINDOW = 3


def init():
    shapes = {
        "pre_attn": (WIDTH,),
        "wq": (WIDTH, KV_HEADS, GROUPS, HEAD),
        "wk": (WIDTH, KV_HEADS, HEAD),
        "wv": (WIDTH, KV_HEADS, HEAD),
        "wo": (KV_HEADS, GROUPS, HEAD, WIDTH),
        "post_attn": (WIDTH,),
        "pre_mlp": (WIDTH,),
        "gate": (WIDTH, HIDDEN),
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
        "post_mlp": (WIDTH,),
    }
    random = np.random.default_rng(0)
    draw = lambda shape: random.normal(size=shape).astype(np.float32) / 5
    layers = lambda: {name: draw((PAIRS, *shape)) for name, shape in shapes.items()}
    return {
        "embed": draw((VOCABULARY, WIDTH)),
        "local": layers(),
        "global": layers(),
        "norm": draw((WIDTH,)),
    }


def norm(x, scale):
    var = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(var + 1e-6) * (1 + scale)


def soft_cap(x, cap):
    return cap * jnp.tanh(x / cap)


def rotary(x):
    length, half = x.shape[1], x.shape[-1] // 2
    timescale = 10_000 ** (2 / x.shape[-1] * jnp.arange(half))
    angle = jnp.arange(length)[:, None] / timescale
    angle = angle.reshape(length, *[1] * (x.ndim - 3), half)
    first, second = jnp.split(x, 2, axis=-1)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def layer(x, p, window):
    h = norm(x, p["pre_attn"])
    q = rotary(jnp.einsum("btd,dkgh->btkgh", h, p["wq"])) * HEAD**-0.5
    k = rotary(jnp.einsum("bsd,dkh->bskh", h, p["wk"]))
    v = jnp.einsum("bsd,dkh->bskh", h, p["wv"])
    scores = soft_cap(jnp.einsum("btkgh,bskh->bkgts", q, k), 50.0)
    position = jnp.arange(x.shape[1])
    mask = position[None, :] <= position[:, None]
    if window is not None:
        mask = mask & (position[:, None] - position[None, :] < window)
    probs = jax.nn.softmax(jnp.where(mask, scores, -2.3819763e38), axis=-1)
    out = jnp.einsum("bkgts,bskh,kghd->btd", probs, v, p["wo"])
    x = x + norm(out, p["post_attn"])
    h = norm(x, p["pre_mlp"])
    h = jax.nn.gelu(h @ p["gate"]) * (h @ p["up"])
    return x + norm(h @ p["down"], p["post_mlp"])


def forward(params, ids):
    x = params["embed"][ids] * WIDTH**0.5

    def pair(x, p):
        return layer(layer(x, p[0], WINDOW), p[1], None), None

    x, _ = jax.lax.scan(pair, x, (params["local"], params["global"]))
    return soft_cap(norm(x, params["norm"]) @ params["embed"].T, 30.0)


def example():
    random = np.random.default_rng(1)
    return init(), random.integers(0, VOCABULARY, (4, LENGTH)).astype(np.int32)
