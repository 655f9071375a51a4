def update_rows(x, chosen, rows):
    """Rows replaced in order, by the first dimension: the last one for a place stays."""
    later = chosen.flip(0).cumsum(0).flip(0) - chosen
    chosen = torch.where(later == 0, chosen, 0)
    return torch.where(chosen.sum(0) != 0, (chosen * rows).sum(0), x)
