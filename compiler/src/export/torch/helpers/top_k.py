def top_k(x, count, dim):
    """The largest elements along a dimension, and their indices; of equal ones the first."""
    found = torch.sort(x, dim=dim, descending=True, stable=True)
    return [one.narrow(dim, 0, count) for one in found]
