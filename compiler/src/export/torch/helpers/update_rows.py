def update_rows(x, chosen, rows, several):
    """Rows replaced in order, by the first dimensions: the last one for a place stays."""
    chosen, rows = (of.flatten(0, several - 1) for of in torch.broadcast_tensors(chosen, rows))
    chosen = chosen.long()
    later = chosen.flip(0).cumsum(0).flip(0) - chosen
    chosen = torch.where(later == 0, chosen, 0)
    return torch.where(chosen.sum(0) != 0, (chosen * rows).sum(0), x)
