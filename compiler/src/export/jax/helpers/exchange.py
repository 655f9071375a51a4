def exchange(x, axes, gained, lost):
    """Each device gets its part from all devices along `axes`: one `all_to_all`.

    `gained` and `lost` are the axes that each dimension is split over afterwards, and
    those that it was split over before.
    """
    shape = []
    place = {}
    for length, split in zip(x.shape, gained):
        for axis in split:
            place[axis] = len(shape)
            shape.append(lax.axis_size(axis))
        shape.append(length // math.prod(lax.axis_size(axis) for axis in split))
    first = [place[axis] for axis in axes]
    rest = [at for at in range(len(shape)) if at not in first]
    parts = x.reshape(shape).transpose(first + rest)
    sizes, block = parts.shape[: len(axes)], parts.shape[len(axes) :]
    parts = lax.all_to_all(parts.reshape(-1, *block), axes, 0, 0, tiled=True)
    order = []
    for dim, merged in enumerate(lost):
        order += [axes.index(axis) for axis in merged] + [len(axes) + dim]
    lengths = [
        length * math.prod(lax.axis_size(axis) for axis in merged)
        for length, merged in zip(block, lost)
    ]
    return parts.reshape(sizes + block).transpose(order).reshape(lengths)
