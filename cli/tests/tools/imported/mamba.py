"""Mamba: a selective state space as a scan over time, a gate, a causal filter of four steps."""

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, INNER, STATE, RANK, LENGTH, TAPS = 12, 24, 4, 3, 10, 4


def init():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(np.float32) / 4
    return {
        "norm": 1 + draw(WIDTH),
        "in_proj": draw(WIDTH, 2 * INNER),
        "filter": draw(TAPS, INNER),
        "filter_bias": draw(INNER),
        "x_proj": draw(INNER, RANK + 2 * STATE),
        "dt_proj": draw(RANK, INNER),
        "dt_bias": draw(INNER),
        "a_log": draw(INNER, STATE),
        "skip": draw(INNER),
        "out_proj": draw(INNER, WIDTH),
    }


def causal_filter(x, taps, bias):
    padded = jnp.pad(x, ((0, 0), (TAPS - 1, 0), (0, 0)))
    shifted = [padded[:, i : i + x.shape[1]] * taps[i] for i in range(TAPS)]
    return sum(shifted) + bias


def selective_scan(u, dt, a, b, c):
    def step(state, inputs):
        u, dt, b, c = inputs
        decay = jnp.exp(dt[:, :, None] * a)
        state = decay * state + (dt * u)[:, :, None] * b[:, None, :]
        return state, jnp.einsum("bin,bn->bi", state, c)

    start = jnp.zeros((u.shape[0], INNER, STATE), u.dtype)
    over_time = [jnp.swapaxes(x, 0, 1) for x in (u, dt, b, c)]
    _, y = jax.lax.scan(step, start, tuple(over_time))
    return jnp.swapaxes(y, 0, 1)


def forward(params, x):
    h = x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6) * params["norm"]
    u, gate = jnp.split(h @ params["in_proj"], 2, axis=-1)
    u = jax.nn.silu(causal_filter(u, params["filter"], params["filter_bias"]))
    projected = u @ params["x_proj"]
    dt, b, c = jnp.split(projected, [RANK, RANK + STATE], axis=-1)
    dt = jax.nn.softplus(dt @ params["dt_proj"] + params["dt_bias"])
    y = selective_scan(u, dt, -jnp.exp(params["a_log"]), b, c) + params["skip"] * u
    return x + (y * jax.nn.silu(gate)) @ params["out_proj"]


def example():
    random = np.random.default_rng(1)
    return init(), random.normal(size=(4, LENGTH, WIDTH)).astype(np.float32)
