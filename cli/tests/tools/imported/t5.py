"""T5: an encoder, a decoder with cross attention, a learned bias of relative positions."""

import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY, SOURCE, TARGET, WIDTH, HEADS, HEAD, BUCKETS = 32, 10, 6, 16, 2, 8, 8


def init():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(np.float32) / 4
    attention = lambda: {
        "q": draw(WIDTH, HEADS * HEAD),
        "k": draw(WIDTH, HEADS * HEAD),
        "v": draw(WIDTH, HEADS * HEAD),
        "o": draw(HEADS * HEAD, WIDTH),
    }
    mlp = lambda: {"wi": draw(WIDTH, 40), "wo": draw(40, WIDTH)}
    return {
        "embed": draw(VOCABULARY, WIDTH),
        "bias": draw(BUCKETS, HEADS),
        "encoder": {"self": attention(), "mlp": mlp()},
        "decoder": {"self": attention(), "cross": attention(), "mlp": mlp()},
    }


def norm(x):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6)


def heads(x):
    return x.reshape(*x.shape[:-1], HEADS, HEAD)


def attend(p, x, memory, bias):
    q, k, v = heads(x @ p["q"]), heads(memory @ p["k"]), heads(memory @ p["v"])
    scores = jnp.einsum("bqnh,bknh->bnqk", q, k) + bias
    out = jnp.einsum("bnqk,bknh->bqnh", jax.nn.softmax(scores, axis=-1), v)
    return out.reshape(*x.shape[:-1], HEADS * HEAD) @ p["o"]


def relative_bias(table, length):
    distance = jnp.abs(jnp.arange(length)[None, :] - jnp.arange(length)[:, None])
    return jnp.transpose(table[jnp.minimum(distance, BUCKETS - 1)], (2, 0, 1))


def mlp(p, x):
    return jax.nn.relu(x @ p["wi"]) @ p["wo"]


def forward(params, source, target):
    p = params["encoder"]
    x = params["embed"][source]
    x = x + attend(p["self"], norm(x), norm(x), relative_bias(params["bias"], SOURCE))
    memory = norm(x + mlp(p["mlp"], norm(x)))
    p = params["decoder"]
    y = params["embed"][target]
    causal = jnp.where(jnp.tril(jnp.ones((TARGET, TARGET), bool)), 0.0, -1e9)
    y = y + attend(p["self"], norm(y), norm(y), relative_bias(params["bias"], TARGET) + causal)
    y = y + attend(p["cross"], norm(y), memory, 0.0)
    y = norm(y + mlp(p["mlp"], norm(y)))
    return (y * WIDTH**-0.5) @ params["embed"].T


def example():
    random = np.random.default_rng(1)
    source = random.integers(0, VOCABULARY, (4, SOURCE)).astype(np.int32)
    return init(), source, random.integers(0, VOCABULARY, (4, TARGET)).astype(np.int32)
