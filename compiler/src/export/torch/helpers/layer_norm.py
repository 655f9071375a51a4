def layer_norm(x, dims, epsilon):
    """Zero mean and unit variance."""
    centred = x - torch.mean(x, dim=dims, keepdim=True)
    return rms_norm(centred, dims, epsilon)
