"""A layer with low-rank updates beside frozen weights, several adapters in a batch."""

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, HIDDEN, RANK, ADAPTERS = 16, 48, 4, 3


def init():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(np.float32) / 4
    return {
        "frozen": {"up": draw(WIDTH, HIDDEN), "down": draw(HIDDEN, WIDTH)},
        "up": {"a": draw(ADAPTERS, WIDTH, RANK), "b": draw(ADAPTERS, RANK, HIDDEN)},
        "down": {"a": draw(ADAPTERS, HIDDEN, RANK), "b": draw(ADAPTERS, RANK, WIDTH)},
    }


def linear(x, w, adapter, which):
    a, b = adapter["a"][which], adapter["b"][which]
    return x @ w + 2.0 * jnp.einsum("btd,bdr,brf->btf", x, a, b)


def forward(params, x, which):
    h = jax.nn.silu(linear(x, params["frozen"]["up"], params["up"], which))
    return x + linear(h, params["frozen"]["down"], params["down"], which)


def example():
    random = np.random.default_rng(1)
    which = random.integers(0, ADAPTERS, (4,)).astype(np.int32)
    return init(), random.normal(size=(4, 8, WIDTH)).astype(np.float32), which
