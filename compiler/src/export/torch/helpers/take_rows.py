def take_rows(table, ids, dim):
    """Rows of a block of a table; zeros for rows of other blocks."""
    rows = table.shape[dim]
    known = (0 <= ids) & (ids < rows)
    found = table.index_select(dim, ids.clamp(0, rows - 1).long().flatten())
    found = found.unflatten(dim, ids.shape) if ids.ndim else found.squeeze(dim)
    known = known.reshape(known.shape + (1,) * (table.ndim - dim - 1))
    return torch.where(known, found, 0)
