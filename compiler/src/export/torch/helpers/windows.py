def windows(x, start, places, kernel, stride, dim):
    """The elements that a kernel covers at each place of a dimension; zeros outside of it."""
    last = stride * (places - 1) + kernel
    x = pad(x, start, max(start + x.shape[dim], last), dim)
    return x.unfold(dim, kernel, stride).narrow(dim, 0, places).movedim(-1, dim + 1)
