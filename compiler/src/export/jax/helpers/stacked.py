def stacked(parts, dim):
    """The chunks of all steps of a scan side by side."""
    x = jnp.moveaxis(parts, 0, dim)
    return x.reshape(*x.shape[:dim], -1, *x.shape[dim + 2 :])
