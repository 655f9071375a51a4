"""MLP-Mixer: products over tokens, then over channels."""

import jax
import jax.numpy as jnp
import numpy as np

TOKENS, WIDTH, LAYERS, CLASSES = 12, 16, 3, 8


def init():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(np.float32) / 4
    blocks = {
        "token_in": draw(LAYERS, TOKENS, 32),
        "token_out": draw(LAYERS, 32, TOKENS),
        "channel_in": draw(LAYERS, WIDTH, 64),
        "channel_out": draw(LAYERS, 64, WIDTH),
    }
    return {"stem": draw(WIDTH, WIDTH), "blocks": blocks, "head": draw(WIDTH, CLASSES)}


def norm(x):
    return jax.nn.standardize(x, axis=-1, epsilon=1e-6)


def block(x, p):
    h = jnp.swapaxes(norm(x), 1, 2)
    h = jax.nn.gelu(h @ p["token_in"]) @ p["token_out"]
    x = x + jnp.swapaxes(h, 1, 2)
    return x + jax.nn.gelu(norm(x) @ p["channel_in"]) @ p["channel_out"], None


def forward(params, x):
    x = x @ params["stem"]
    x, _ = jax.lax.scan(block, x, params["blocks"])
    return norm(x).mean(axis=1) @ params["head"]


def example():
    random = np.random.default_rng(1)
    return init(), random.normal(size=(4, TOKENS, WIDTH)).astype(np.float32)
