def roll(x, distance, dim, axes):
    """A cyclic shift of a dimension that is split over devices."""
    count, length = lax.axis_size(axes), x.shape[dim]
    blocks, rest = divmod(distance, length)

    def from_before(x, blocks):
        pairs = [(device, (device + blocks) % count) for device in range(count)]
        return lax.ppermute(x, axes, pairs) if blocks % count else x

    near = from_before(lax.slice_in_dim(x, 0, length - rest, axis=dim), blocks)
    if rest == 0:
        return near
    far = from_before(lax.slice_in_dim(x, length - rest, length, axis=dim), blocks + 1)
    return jnp.concatenate([far, near], axis=dim)
