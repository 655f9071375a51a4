def relabel(x, axes, names, held, wanted):
    """Each device gets the block that it has under other axes: one send and one receive.

    `held` and `wanted` are the axes of each dimension that changes, before and after.
    """
    devices = list(itertools.product(*(range(axes.size(name)) for name in names)))

    def blocks(device, lists):
        at = dict(zip(names, device))
        return [tuple(at[name] for name in part) for part in lists]

    def number(device, lists):
        return [
            functools.reduce(lambda n, k: n * axes.size(k[0]) + k[1], zip(part, places), 0)
            for part, places in zip(lists, blocks(device, lists))
        ]

    order = range(len(devices))
    sources = sorted(order, key=lambda device: (number(devices[device], held), device))
    targets = sorted(order, key=lambda device: (number(devices[device], wanted), device))
    target = dict(zip(sources, targets))
    return permute(x, [target[device] for device in order], axes[names])
