def all_to_all(x, split, concat, group):
    """Each device gets its part along `split` from all, side by side along `concat`."""
    parts = torch.stack(x.chunk(dist.get_world_size(group), split))
    parts = funcol.all_to_all_single(parts, None, None, group)
    return torch.cat(parts.unbind(), concat)
