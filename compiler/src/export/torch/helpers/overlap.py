def overlap(y, start, size, stride, dim):
    """Windows added up at the elements that they are of; `dim` has the places, the next them."""
    places, kernel = y.shape[dim : dim + 2]
    last = stride * (places - 1) + kernel
    total = y.new_zeros([*y.shape[:dim], max(last, start + size), *y.shape[dim + 2 :]])
    at = stride * torch.arange(places)[:, None] + torch.arange(kernel)
    total.index_add_(dim, at.flatten().to(y.device), y.flatten(dim, dim + 1))
    return total.narrow(dim, start, size)
