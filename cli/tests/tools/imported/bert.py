"""BERT: a mask of padding as an argument, norms after each part, a pooler, class scores."""

import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, CLASSES = 40, 8, 24, 3, 2, 5


def init():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(np.float32) / 4
    layer = lambda: {
        **{name: draw(WIDTH, HEADS, WIDTH // HEADS) for name in ("query", "key", "value")},
        "out": draw(HEADS, WIDTH // HEADS, WIDTH),
        "intermediate": draw(WIDTH, 4 * WIDTH),
        "output": draw(4 * WIDTH, WIDTH),
        "norm1": draw(WIDTH),
        "norm2": draw(WIDTH),
    }
    return {
        "words": draw(VOCABULARY, WIDTH),
        "types": draw(2, WIDTH),
        "layers": [layer() for _ in range(LAYERS)],
        "pooler": draw(WIDTH, WIDTH),
        "classifier": draw(WIDTH, CLASSES),
    }


def layer_norm(x, scale):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return scale * (x - mean) / jnp.sqrt(variance + 1e-12)


def forward(params, ids, types, mask):
    x = jnp.take(params["words"], ids, axis=0) + params["types"][types]
    bias = jnp.where(mask[:, None, None, :] == 1, 0.0, -1e9)
    for p in params["layers"]:
        q, k, v = (jnp.tensordot(x, p[name], 1) for name in ("query", "key", "value"))
        scores = jnp.einsum("btnh,bsnh->bnts", q, k) / (WIDTH // HEADS) ** 0.5 + bias
        weights = jnp.exp(scores - scores.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        attended = jnp.einsum("bnts,bsnh->btnh", weights, v)
        x = layer_norm(x + jnp.tensordot(attended, p["out"], 2), p["norm1"])
        hidden = jax.nn.gelu(x @ p["intermediate"], approximate=False)
        x = layer_norm(x + hidden @ p["output"], p["norm2"])
    pooled = jnp.tanh(x[:, 0] @ params["pooler"])
    return jax.nn.log_softmax(pooled @ params["classifier"])


def example():
    random = np.random.default_rng(1)
    ids = random.integers(0, VOCABULARY, (4, LENGTH)).astype(np.int32)
    types = random.integers(0, 2, (4, LENGTH)).astype(np.int32)
    return init(), ids, types, (jnp.arange(LENGTH) < jnp.array([[8], [5], [6], [3]])).astype(int)
