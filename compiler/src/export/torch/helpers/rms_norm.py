def rms_norm(x, dims, epsilon):
    """Unit mean square."""
    return x * torch.rsqrt(torch.mean(x * x, dim=dims, keepdim=True) + epsilon)
