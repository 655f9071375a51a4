def pad(x, start, size, dim):
    """Zeros around an array along one dimension."""
    widths = [0, 0] * (x.ndim - 1 - dim) + [start, size - start - x.shape[dim]]
    return functional.pad(x, widths)
