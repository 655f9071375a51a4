def pull_back(function, x, dy):
    """The gradient of an element-wise function at `x`, times `dy`."""
    _, slope = jax.jvp(function, (x,), (jnp.ones_like(x),))
    return dy * slope
