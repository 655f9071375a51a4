"""Functions that cannot be imported, each for a reason of its own."""

import jax
import jax.numpy as jnp
import numpy as np

# The lines of these functions are in the errors that a test expects.


def sorted_rows(x):
    x = jnp.sin(x)
    return jax.lax.sort((x, -x), num_keys=2)[0]


def truncated(x):
    return x.astype(jnp.int32)


def endless(x):
    return jax.lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 1.0, x)


def noisy(x, key):
    return x + jax.random.normal(key, x.shape)


def convolved(x, kernel):
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", rhs_dilation=(2, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def raising(x):
    return helper(x)


def helper(x):
    raise ValueError("too cold")


def product(x, w):
    return x @ w


def mapped(x):
    mesh = jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("X")
    total = lambda x: x.sum(keepdims=True)
    return jax.shard_map(total, mesh=mesh, in_specs=spec, out_specs=spec)(x)


def branching(x):
    return x if x.sum() > 0 else -x


def of_numpy(x):
    return np.exp(np.asarray(x))


def masked(x, keep):
    return jnp.where(keep, x, jnp.nan)


def leaving(x):
    raise SystemExit(3)


def without_result(x):
    x * 2


def emptied(x):
    return x[:0]
