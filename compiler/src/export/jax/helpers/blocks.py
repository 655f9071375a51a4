def blocks(x, axes, dims):
    """The blocks for all devices along `axes`, the first dimension; each axis splits one of `dims`."""
    for number, (axis, dim) in enumerate(zip(axes, dims)):
        place, shape = number + dim, list(x.shape)
        shape[place : place + 1] = [lax.axis_size(axis), shape[place] // lax.axis_size(axis)]
        x = jnp.moveaxis(x.reshape(shape), place, number)
    return lax.collapse(x, 0, len(axes))
