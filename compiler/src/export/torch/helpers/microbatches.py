def microbatches(x, count, dim):
    """The rows of each microbatch: every `count`-th, from its number on."""
    return x.unflatten(dim, (x.shape[dim] // count, count)).movedim(dim + 1, 0)
