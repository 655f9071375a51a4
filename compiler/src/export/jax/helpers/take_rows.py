def take_rows(table, ids, dim):
    """Rows of a block of a table; zeros for rows of other blocks."""
    rows = table.shape[dim]
    known = (0 <= ids) & (ids < rows)
    found = jnp.take(table, jnp.clip(ids, 0, rows - 1).astype(jnp.int32), axis=dim)
    known = known.reshape(known.shape + (1,) * (table.ndim - dim - 1))
    return jnp.where(known, found, 0)
