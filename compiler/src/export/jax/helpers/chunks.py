def chunks(x, count, dim):
    """What each step of a scan reads: `count` chunks side by side."""
    rows = (count, x.shape[dim] // count)
    parts = x.reshape(*x.shape[:dim], *rows, *x.shape[dim + 1 :])
    return jnp.moveaxis(parts, dim, 0)
