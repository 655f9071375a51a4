"""A mixture of experts as in Mixtral: the two best of each token, their weights normalised."""

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, HIDDEN, EXPERTS, CHOSEN, LAYERS = 16, 32, 4, 2, 2


def init():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=(LAYERS, *shape)).astype(np.float32) / 4
    return {
        "norm": draw(WIDTH),
        "router": draw(WIDTH, EXPERTS),
        "gate": draw(EXPERTS, WIDTH, HIDDEN),
        "up": draw(EXPERTS, WIDTH, HIDDEN),
        "down": draw(EXPERTS, HIDDEN, WIDTH),
    }


def rms_norm(x, scale):
    return x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6) * scale


def experts(x, p):
    h = rms_norm(x, p["norm"])
    weights, chosen = jax.lax.top_k(h @ p["router"], CHOSEN)
    weights = jax.nn.softmax(weights, axis=-1)
    one_hot = jax.nn.one_hot(chosen, EXPERTS)
    combine = jnp.einsum("btk,btke->bte", weights, one_hot)
    gate = jax.nn.silu(jnp.einsum("btd,edf->btef", h, p["gate"]))
    up = jnp.einsum("btd,edf->btef", h, p["up"])
    out = jnp.einsum("btef,efd->bted", gate * up, p["down"])
    return x + jnp.einsum("bted,bte->btd", out, combine), None


def forward(params, x):
    return jax.lax.scan(experts, x, params)[0]


def example():
    random = np.random.default_rng(1)
    return init(), random.normal(size=(4, 8, WIDTH)).astype(np.float32)
