def exchange(x, axes, names, gained, lost):
    """Each device gets its part from all devices along axes: one `all_to_all_single`.

    `gained` and `lost` are the axes that each dimension is split over afterwards, and
    those that it was split over before.
    """
    shape = []
    place = {}
    for length, split in zip(x.shape, gained):
        for name in split:
            place[name] = len(shape)
            shape.append(axes.size(name))
        shape.append(length // axes.size(*split))
    first = [place[name] for name in names]
    rest = [at for at in range(len(shape)) if at not in first]
    parts = x.reshape(shape).permute(first + rest)
    sizes, block = parts.shape[: len(names)], parts.shape[len(names) :]
    parts = parts.reshape(-1, *block).contiguous()
    parts = funcol.all_to_all_single(parts, None, None, axes[names])
    order = []
    for dim, merged in enumerate(lost):
        order += [names.index(name) for name in merged] + [len(names) + dim]
    lengths = [length * axes.size(*merged) for length, merged in zip(block, lost)]
    return parts.reshape(*sizes, *block).permute(order).reshape(lengths)
