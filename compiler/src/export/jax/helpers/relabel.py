def relabel(x, axes, held, wanted):
    """Each device gets the block that it has under other axes: one `ppermute`.

    `held` and `wanted` are the axes of each dimension that changes, before and after.
    """
    sizes = [lax.axis_size(axis) for axis in axes]

    def block(at, lists):
        return [[at[axes.index(axis)] for axis in part] for part in lists]

    def number(at, lists):
        numbers = []
        for part, places in zip(lists, block(at, lists)):
            index = 0
            for axis, place in zip(part, places):
                index = index * lax.axis_size(axis) + place
            numbers.append(index)
        return numbers

    devices = list(np.ndindex(*sizes))
    order = range(len(devices))
    sources = sorted(order, key=lambda device: (number(devices[device], held), device))
    targets = sorted(order, key=lambda device: (number(devices[device], wanted), device))
    return lax.ppermute(x, axes, list(zip(sources, targets)))
