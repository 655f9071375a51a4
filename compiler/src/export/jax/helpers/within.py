def within(x, dim, length, fill):
    """A block with other elements from the end of its dimension on."""
    at = jnp.arange(x.shape[dim]).reshape(-1, *[1] * (x.ndim - 1 - dim))
    return jnp.where(at < length, x, fill)
