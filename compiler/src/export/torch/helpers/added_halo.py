def added_halo(x, before, after, dim, group):
    """A block of sums, with what the windows of the blocks next to it add to its ends."""
    count, me = dist.get_world_size(group), dist.get_rank(group)
    length = x.shape[dim] - before - after
    block = x.narrow(dim, before, length)
    if before:
        sent = permute(x.narrow(dim, 0, before), [(k - 1) % count for k in range(count)], group)
        added = sent if me < count - 1 else torch.zeros_like(sent)
        block = block + pad(added, length - before, length, dim)
    if after:
        sent = x.narrow(dim, before + length, after)
        sent = permute(sent, [(k + 1) % count for k in range(count)], group)
        block = block + pad(sent if me else torch.zeros_like(sent), 0, length, dim)
    return block
