def own_parts(x, axes, own, dim):
    """A device's parts along `own` of a dimension that `axes` cut, the first one the major."""
    before, after = x.shape[:dim], x.shape[dim + 1 :]
    x = x.reshape(*before, *[lax.axis_size(axis) for axis in axes], -1, *after)
    for number, axis in reversed([*enumerate(axes)]):
        if axis in own:
            x = lax.dynamic_index_in_dim(x, lax.axis_index(axis), dim + number, keepdims=False)
    return x.reshape(*before, -1, *after)
