"""Two layers with a residual."""

import jax
import numpy as np


def init():
    random = np.random.default_rng(0)
    return {
        "w_up": random.normal(size=(16, 64)).astype(np.float32) / 4,
        "w_down": random.normal(size=(64, 16)).astype(np.float32) / 8,
    }


def forward(params, x):
    h = jax.nn.gelu(x @ params["w_up"])
    return x + h @ params["w_down"]


def example():
    random = np.random.default_rng(1)
    return init(), random.normal(size=(8, 16)).astype(np.float32)
