def stacked(parts, dim):
    """The chunks of all steps of a scan side by side."""
    return parts.movedim(0, dim).flatten(dim, dim + 1)
