def windows(x, start, places, kernel, stride, dim):
    """The elements that a kernel covers at each place of a dimension; zeros outside of it."""
    last = stride * (places - 1) + kernel
    x = pad(x, start, max(start + x.shape[dim], last), dim)
    at = stride * np.arange(places)[:, None] + np.arange(kernel)
    return jnp.take(x, at, axis=dim)
