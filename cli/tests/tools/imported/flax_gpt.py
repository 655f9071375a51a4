"""A decoder of flax modules, as the library writes its norms, masks and attention."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

VOCABULARY, LENGTH, WIDTH, HEADS = 64, 12, 32, 4


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=HEADS)(h, h, mask=mask)
        h = nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x)))
        return x + nn.Dense(WIDTH)(h)


class Decoder(nn.Module):
    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(VOCABULARY, WIDTH)(ids)
        for _ in range(2):
            x = Block()(x)
        return nn.Dense(VOCABULARY)(nn.RMSNorm()(x))


def forward(variables, ids):
    return Decoder().apply(variables, ids)


def example():
    random = np.random.default_rng(0)
    ids = random.integers(0, VOCABULARY, (4, LENGTH)).astype(np.int32)
    shapes = jax.eval_shape(Decoder().init, jax.random.key(0), ids)
    draw = lambda of: random.normal(size=of.shape).astype(np.float32) / 4
    return jax.tree.map(draw, shapes), ids
