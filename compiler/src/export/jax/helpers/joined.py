def joined(parts, dim):
    """The rows of all microbatches in the order of the batch."""
    x = jnp.moveaxis(parts, 0, dim + 1)
    return x.reshape(*x.shape[:dim], -1, *x.shape[dim + 2 :])
