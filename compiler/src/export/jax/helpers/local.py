def local(size, axes):
    """The length of a device's block of a dimension."""
    return size // lax.axis_size(axes)
