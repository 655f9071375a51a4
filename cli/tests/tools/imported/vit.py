"""A vision transformer: patches by reshape, a class token, layers written out, no scan."""

import jax
import jax.numpy as jnp
import numpy as np

IMAGE, PATCH, COLORS, WIDTH, HEADS, CLASSES, LAYERS = 16, 4, 3, 32, 4, 10, 2


def init():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(np.float32) / 5
    tokens = (IMAGE // PATCH) ** 2 + 1
    layer = lambda: {
        "ln1": {"scale": draw(WIDTH), "bias": draw(WIDTH)},
        "wqkv": draw(WIDTH, 3, HEADS, WIDTH // HEADS),
        "wo": draw(HEADS, WIDTH // HEADS, WIDTH),
        "ln2": {"scale": draw(WIDTH), "bias": draw(WIDTH)},
        "w1": draw(WIDTH, 4 * WIDTH),
        "b1": draw(4 * WIDTH),
        "w2": draw(4 * WIDTH, WIDTH),
        "b2": draw(WIDTH),
    }
    return {
        "embed": draw(PATCH * PATCH * COLORS, WIDTH),
        "cls": draw(1, 1, WIDTH),
        "positions": draw(1, tokens, WIDTH),
        "layers": [layer() for _ in range(LAYERS)],
        "head": draw(WIDTH, CLASSES),
    }


def layer_norm(x, p):
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(centred**2, axis=-1, keepdims=True)
    return centred / jnp.sqrt(variance + 1e-6) * p["scale"] + p["bias"]


def encoder(x, p):
    h = layer_norm(x, p["ln1"])
    qkv = jnp.einsum("btd,dcnh->cbtnh", h, p["wqkv"])
    q, k, v = qkv[0], qkv[1], qkv[2]
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) * q.shape[-1] ** -0.5
    out = jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores), v)
    x = x + jnp.einsum("btnh,nhd->btd", out, p["wo"])
    h = jax.nn.gelu(layer_norm(x, p["ln2"]) @ p["w1"] + p["b1"], approximate=False)
    return x + h @ p["w2"] + p["b2"]


def forward(params, images):
    batch, grid = images.shape[0], IMAGE // PATCH
    patches = images.reshape(batch, grid, PATCH, grid, PATCH, COLORS)
    patches = patches.transpose(0, 1, 3, 2, 4, 5).reshape(batch, grid * grid, -1)
    x = patches @ params["embed"]
    cls = jnp.broadcast_to(params["cls"], (batch, 1, WIDTH))
    x = jnp.concatenate([cls, x], axis=1) + params["positions"]
    for layer in params["layers"]:
        x = encoder(x, layer)
    return x[:, 0] @ params["head"]


def example():
    random = np.random.default_rng(1)
    return init(), random.normal(size=(4, IMAGE, IMAGE, COLORS)).astype(np.float32)
