def pad(x, start, size, dim):
    """Zeros around an array along one dimension."""
    widths = [(0, 0)] * x.ndim
    widths[dim] = (start, size - start - x.shape[dim])
    return jnp.pad(x, widths)
