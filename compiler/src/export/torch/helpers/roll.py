def roll(x, distance, dim, group):
    """A cyclic shift of a dimension that is split over devices."""
    count, length = dist.get_world_size(group), x.shape[dim]
    blocks, rest = divmod(distance, length)

    def from_before(x, blocks):
        return permute(x, [(device + blocks) % count for device in range(count)], group)

    near = from_before(x.narrow(dim, 0, length - rest), blocks)
    if rest == 0:
        return near
    far = from_before(x.narrow(dim, length - rest, rest), blocks + 1)
    return torch.cat([far, near], dim)
