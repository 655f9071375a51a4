def side_by_side(blocks, axes, names, dims):
    """The blocks of all devices along axes as one array; each axis splits one of `dims`."""
    x = blocks.unflatten(0, [axes.size(name) for name in names])
    for number in reversed(range(len(names))):
        place = number + dims[number]
        x = x.movedim(number, place).flatten(place, place + 1)
    return x
