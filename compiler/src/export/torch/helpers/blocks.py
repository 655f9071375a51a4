def blocks(x, axes, names, dims):
    """The blocks for all devices along axes, the first dimension; each axis splits one of `dims`."""
    for number, (name, dim) in enumerate(zip(names, dims)):
        x = x.unflatten(number + dim, (axes.size(name), -1)).movedim(number + dim, number)
    return x.flatten(0, len(names) - 1).contiguous()
