def update_rows(x, chosen, rows):
    """Rows replaced in order, by the first dimension: the last one for a place stays."""
    later = lax.cumsum(chosen, axis=0, reverse=True) - chosen
    chosen = jnp.where(later == 0, chosen, 0)
    return jnp.where(chosen.sum(0) != 0, (chosen * rows).sum(0), x)
