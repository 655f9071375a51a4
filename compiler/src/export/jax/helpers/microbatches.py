def microbatches(x, count, dim):
    """The rows of each microbatch: every `count`-th, from its number on."""
    rows = (x.shape[dim] // count, count)
    parts = x.reshape(*x.shape[:dim], *rows, *x.shape[dim + 1 :])
    return jnp.moveaxis(parts, dim + 1, 0)
