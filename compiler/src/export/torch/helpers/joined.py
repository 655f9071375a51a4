def joined(parts, dim):
    """The rows of all microbatches in the order of the batch."""
    return parts.movedim(0, dim + 1).flatten(dim, dim + 1)
