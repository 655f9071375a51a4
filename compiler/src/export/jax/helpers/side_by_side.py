def side_by_side(blocks, axes, dims):
    """The blocks of all devices along `axes` as one array; each axis splits one of `dims`."""
    x = blocks.reshape([lax.axis_size(axis) for axis in axes] + list(blocks.shape[1:]))
    for number in reversed(range(len(axes))):
        place = number + dims[number]
        x = lax.collapse(jnp.moveaxis(x, number, place), place, place + 2)
    return x
