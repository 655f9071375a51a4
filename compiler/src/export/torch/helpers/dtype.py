def dtype(planned):
    """The planned type; float64 where that is the default, to compare every digit."""
    is_float = planned.is_floating_point
    return torch.float64 if is_float and torch.get_default_dtype() == torch.float64 else planned
