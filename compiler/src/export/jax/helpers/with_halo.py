def with_halo(x, before, after, dim, axes):
    """A block between the ends of the blocks next to it; zeros outside of the dimension."""
    count, length = lax.axis_size(axes), x.shape[dim]
    parts = [x]
    if before:
        last = lax.slice_in_dim(x, length - before, length, axis=dim)
        parts.insert(0, lax.ppermute(last, axes, [(k, k + 1) for k in range(count - 1)]))
    if after:
        first = lax.slice_in_dim(x, 0, after, axis=dim)
        parts.append(lax.ppermute(first, axes, [(k + 1, k) for k in range(count - 1)]))
    return jnp.concatenate(parts, axis=dim)
