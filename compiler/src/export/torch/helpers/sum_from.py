def sum_from(x, dim):
    """For each element the sum of those from it on, along a dimension."""
    return x.flip(dim).cumsum(dim).flip(dim)
