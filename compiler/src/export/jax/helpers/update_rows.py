def update_rows(x, chosen, rows, several):
    """Rows replaced in order, by the first dimensions: the last one for a place stays."""
    shape = jnp.broadcast_shapes(chosen.shape, rows.shape)
    chosen, rows = (
        jnp.broadcast_to(of, shape).reshape(-1, *shape[several:]) for of in (chosen, rows)
    )
    later = lax.cumsum(chosen, axis=0, reverse=True) - chosen
    chosen = jnp.where(later == 0, chosen, 0)
    return jnp.where(chosen.sum(0) != 0, (chosen * rows).sum(0), x)
