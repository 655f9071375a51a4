def top_k(x, count, dim):
    """The largest elements along a dimension, and their indices."""
    found = lax.top_k(jnp.moveaxis(x, dim, -1), count)
    return [jnp.moveaxis(one, -1, dim) for one in found]
