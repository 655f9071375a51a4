"""Attention in the forms that people write it in, and what only looks like it; `CASES` are the
arguments."""

import jax
import jax.numpy as jnp
import numpy as np

BATCH, LENGTH, HEADS, GROUPS, HEAD = 2, 6, 4, 2, 8


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def qkv(keys=LENGTH, key_heads=HEADS, value=HEAD):
    """Queries, keys and values, as `[B, T, N, H]`."""
    q = draw(BATCH, LENGTH, HEADS, HEAD)
    return q, draw(BATCH, keys, key_heads, HEAD, seed=1), draw(BATCH, keys, key_heads, value, seed=2)


def of_scores(weigh):
    """Attention whose weights a function computes of scores."""
    return lambda q, k, v: jnp.einsum(
        "bnts,bsnh->btnh", weigh(jnp.einsum("btnh,bsnh->bnts", q, k)), v
    )


def places(scores):
    return jnp.arange(scores.shape[-2])[:, None], jnp.arange(scores.shape[-1])


def recent(scores):
    """Causal, and within a window."""
    here, there = places(scores)
    is_seen = (there <= here) & (here - there < 3)
    return jax.nn.softmax(jnp.where(is_seen, scores / np.sqrt(HEAD), -1e30))


def in_two_steps(scores):
    """The window first, then what is causal; places are compared in other words."""
    here, there = places(scores)
    near = jnp.where(there > here - 3, scores * 0.25, -jnp.inf)
    return jax.nn.softmax(jnp.where(there - here < 1, near, -jnp.inf))


def capped(scores):
    return jax.nn.softmax(30.0 * jnp.tanh(scores * 0.5 / 30.0))


def doubly_scaled(q, k, v):
    scores = jnp.einsum("btnh,bsnh->bnts", q * HEAD**-0.25, k * HEAD**-0.25)
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores), v)


def in_bf16(q, k, v):
    """A softmax in f32 between products of bf16."""
    q, k, v = (it.astype(jnp.bfloat16) for it in (q, k, v))
    scores = jnp.einsum("btnh,bsnh->bnts", q, k, preferred_element_type=jnp.float32)
    weights = jax.nn.softmax(scores).astype(jnp.bfloat16)
    return jnp.einsum("bnts,bsnh->btnh", weights, v)


def grouped(q, k, v):
    """Two heads of queries share one of keys."""
    q = q.reshape(BATCH, LENGTH, GROUPS, HEADS // GROUPS, HEAD)
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k)
    return jnp.einsum("bkgts,bskh->btkgh", jax.nn.softmax(scores), v)


def of_jax(**options):
    return lambda q, k, v: jax.nn.dot_product_attention(q, k, v, **options)


two_weights = of_scores(lambda scores: jax.nn.softmax(scores) + jax.nn.softmax(scores * 2))
over_queries = of_scores(lambda scores: jax.nn.softmax(scores, axis=-2))
biased = of_scores(lambda scores: jax.nn.softmax(scores + jnp.eye(LENGTH)))
around = of_scores(lambda scores: jax.nn.softmax(jnp.where(abs(sum(places(-scores))) < 2, 0, scores)))
negated = of_scores(lambda scores: jax.nn.softmax(-scores))


def two_sided(scores):
    here, there = places(scores)
    is_near = (here - there < 2) & (there - here < 2)
    return jax.nn.softmax(jnp.where(is_near, scores, -1e30))


def with_weights(q, k, v):
    """The weights are a result, too."""
    weights = jax.nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, k))
    return jnp.einsum("bnts,bsnh->btnh", weights, v), weights


def of_values_and_keys(q, k, v):
    """The last product sums over heads, too."""
    weights = jax.nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, k))
    return jnp.einsum("bnts,bsnh->bth", weights, v)


recent, in_two_steps, capped, two_sided = map(of_scores, (recent, in_two_steps, capped, two_sided))
default, causal = of_jax(), of_jax(is_causal=True)
local = of_jax(is_causal=True, scale=0.25, local_window_size=(2, 0))

CASES = {
    "recent": qkv(),
    "in_two_steps": qkv(),
    "capped": qkv(),
    "doubly_scaled": qkv(keys=5),
    "in_bf16": qkv(value=3),
    "grouped": qkv(key_heads=GROUPS),
    "default": qkv(),
    "causal": qkv(key_heads=GROUPS),
    "local": qkv(),
    "two_weights": qkv(),
    "over_queries": qkv(),
    "biased": qkv(),
    "around": qkv(),
    "negated": qkv(),
    "two_sided": qkv(),
    "with_weights": qkv(),
    "of_values_and_keys": qkv(),
}
