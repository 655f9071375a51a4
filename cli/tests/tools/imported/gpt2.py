"""GPT-2: learned positions, layers by scan, tied embeddings, a loss."""

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, VOCABULARY, LENGTH, WIDTH, HEADS = 3, 64, 16, 32, 4


def init():
    shapes = {
        "attn_norm": (LAYERS, WIDTH),
        "attn_bias": (LAYERS, WIDTH),
        "wqkv": (LAYERS, WIDTH, 3 * WIDTH),
        "bqkv": (LAYERS, 3 * WIDTH),
        "wo": (LAYERS, WIDTH, WIDTH),
        "bo": (LAYERS, WIDTH),
        "mlp_norm": (LAYERS, WIDTH),
        "mlp_bias": (LAYERS, WIDTH),
        "w_in": (LAYERS, WIDTH, 4 * WIDTH),
        "b_in": (LAYERS, 4 * WIDTH),
        "w_out": (LAYERS, 4 * WIDTH, WIDTH),
        "b_out": (LAYERS, WIDTH),
    }
    random = np.random.default_rng(0)
    draw = lambda shape: random.normal(size=shape).astype(np.float32) / 4
    return {
        "wte": draw((VOCABULARY, WIDTH)),
        "wpe": draw((LENGTH, WIDTH)),
        "layers": {name: draw(shape) for name, shape in shapes.items()},
        "final_norm": draw((WIDTH,)),
        "final_bias": draw((WIDTH,)),
    }


def layer_norm(x, scale, bias, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + eps) * scale + bias


def attention(x, p):
    batch, length, width = x.shape
    qkv = x @ p["wqkv"] + p["bqkv"]
    q, k, v = jnp.split(qkv, 3, axis=-1)
    q, k, v = (t.reshape(batch, length, HEADS, width // HEADS) for t in (q, k, v))
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(width // HEADS)
    mask = jnp.tril(jnp.ones((length, length), bool))
    scores = jnp.where(mask, scores, -1e10)
    probs = jax.nn.softmax(scores, axis=-1)
    out = jnp.einsum("bhts,bshd->bthd", probs, v).reshape(batch, length, width)
    return out @ p["wo"] + p["bo"]


def block(x, p):
    x = x + attention(layer_norm(x, p["attn_norm"], p["attn_bias"]), p)
    h = layer_norm(x, p["mlp_norm"], p["mlp_bias"])
    h = jax.nn.gelu(h @ p["w_in"] + p["b_in"])
    return x + h @ p["w_out"] + p["b_out"], None


def logits(params, ids):
    x = params["wte"][ids] + params["wpe"][: ids.shape[1]]
    x, _ = jax.lax.scan(block, x, params["layers"])
    x = layer_norm(x, params["final_norm"], params["final_bias"])
    return x @ params["wte"].T


def forward(params, ids, labels):
    logp = jax.nn.log_softmax(logits(params, ids))
    picked = jnp.take_along_axis(logp, labels[..., None], axis=-1)
    return -picked.mean()


def example():
    random = np.random.default_rng(1)
    ids, labels = (random.integers(0, VOCABULARY, (4, LENGTH)).astype(np.int32) for _ in range(2))
    return init(), ids, labels
