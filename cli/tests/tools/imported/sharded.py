"""Shardings of arguments and of an activation, as the function says them."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

MESH = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def on(*axes):
    return NamedSharding(MESH, PartitionSpec(*axes))


def forward(params, x):
    h = jax.nn.gelu(x @ params["up"])
    h = jax.lax.with_sharding_constraint(h, on("data", None, "model"))
    return x + h @ params["down"]


def example():
    shape = lambda sizes, *axes: jax.ShapeDtypeStruct(sizes, jnp.bfloat16, sharding=on(*axes))
    up, down = shape((512, 2048), None, "model"), shape((2048, 512), "model")
    return {"up": up, "down": down}, shape((32, 128, 512), ("data", "model"))
