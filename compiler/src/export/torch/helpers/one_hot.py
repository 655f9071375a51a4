def one_hot(ids, rows):
    """Whether an index is that of a row of a block; of no row for rows of other blocks."""
    return ids[..., None] == torch.arange(rows, device=ids.device)
