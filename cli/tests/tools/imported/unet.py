"""A level of a U-Net: convolutions with group norms, down, up again, and a connection across."""

import jax
import jax.numpy as jnp
import numpy as np


def conv(x, kernel, stride=1):
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=numbers)


def group_norm(x, scale, groups=4):
    batch, height, width, channels = x.shape
    split = x.reshape(batch, height, width, groups, channels // groups)
    mean = split.mean(axis=(1, 2, 4), keepdims=True)
    variance = ((split - mean) ** 2).mean(axis=(1, 2, 4), keepdims=True)
    return ((split - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape) * scale


def block(x, p):
    h = conv(jax.nn.silu(group_norm(x, p["norm"])), p["first"])
    return x + conv(jax.nn.silu(h), p["second"])


def forward(params, image):
    x = conv(image, params["entry"])
    across = block(x, params["outer"])
    deep = block(conv(across, params["down"], stride=2), params["inner"])
    up = jnp.repeat(jnp.repeat(deep, 2, axis=1), 2, axis=2)
    joined = jnp.concatenate([across, conv(up, params["up"])], axis=-1)
    return conv(joined, params["exit"])


def example():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(np.float32) * 0.2
    layers = lambda width: {
        "norm": draw(width),
        "first": draw(3, 3, width, width),
        "second": draw(3, 3, width, width),
    }
    params = {
        "entry": draw(3, 3, 3, 8),
        "outer": layers(8),
        "down": draw(3, 3, 8, 16),
        "inner": layers(16),
        "up": draw(3, 3, 16, 8),
        "exit": draw(1, 1, 16, 3),
    }
    return params, draw(2, 8, 8, 3)
