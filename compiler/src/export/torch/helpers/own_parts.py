def own_parts(x, axes, names, own, dim):
    """A device's parts along `own` of a dimension that `names` cut, the first one the major."""
    x = x.unflatten(dim, [*[axes.size(name) for name in names], -1])
    for number, name in reversed([*enumerate(names)]):
        if name in own:
            x = x.select(dim + number, axes.index(name))
    return x.flatten(dim, dim + len(names) - len(own))
