"""Random numbers: with a key that is an argument, one for each layer, and one of the function's own."""

import jax
import jax.numpy as jnp
import numpy as np

ROWS, WIDTH, LAYERS = 8, 4, 3


def layer(x, p):
    """A layer with dropout."""
    w, key = p
    return jnp.tanh(x @ w) * jax.random.bernoulli(key, 0.5, x.shape), None


def forward(x, w, key, keys):
    first, second = jax.random.split(key)
    x = x + jax.random.normal(first, x.shape) + jax.random.uniform(second, (WIDTH,))
    x, _ = jax.lax.scan(layer, x, (w, keys))
    return x * jax.random.normal(jax.random.key(7), x.shape, jnp.float32)


def example():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(np.float32)
    key = jax.random.key(1)
    return draw(ROWS, WIDTH), draw(LAYERS, WIDTH, WIDTH), key, jax.random.split(key, LAYERS)


def key_of(numbers):
    return jax.random.wrap_key_data(numbers.astype(jnp.uint32))


# What the statements that the language does not have compute, of the numbers of keys.
OPAQUE = {
    "random_split": lambda key: jax.random.key_data(jax.random.split(key_of(key))).astype(int),
    "normal": lambda key: jax.random.normal(key_of(key), (ROWS, WIDTH)),
    "uniform_0_0_1_0": lambda key: jax.random.uniform(key_of(key), (WIDTH,)),
    "bernoulli_0_5": lambda key: jax.random.bernoulli(key_of(key), 0.5, (ROWS, WIDTH)),
}
