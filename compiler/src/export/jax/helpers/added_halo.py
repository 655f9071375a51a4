def added_halo(x, before, after, dim, axes):
    """A block of sums, with what the windows of the blocks next to it add to its ends."""
    count, length = lax.axis_size(axes), x.shape[dim] - before - after
    block = lax.slice_in_dim(x, before, before + length, axis=dim)
    if before:
        sent = lax.slice_in_dim(x, 0, before, axis=dim)
        sent = lax.ppermute(sent, axes, [(k + 1, k) for k in range(count - 1)])
        block = block + pad(sent, length - before, length, dim)
    if after:
        sent = lax.slice_in_dim(x, before + length, x.shape[dim], axis=dim)
        sent = lax.ppermute(sent, axes, [(k, k + 1) for k in range(count - 1)])
        block = block + pad(sent, 0, length, dim)
    return block
