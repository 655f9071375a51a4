def chunks(x, count, dim):
    """What each step of a scan reads: `count` chunks side by side."""
    return x.unflatten(dim, (count, x.shape[dim] // count)).movedim(dim, 0)
