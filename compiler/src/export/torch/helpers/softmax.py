def softmax(x, dims):
    """Softmax along several dimensions together."""
    return torch.exp(x - torch.logsumexp(x, dims, keepdim=True))
