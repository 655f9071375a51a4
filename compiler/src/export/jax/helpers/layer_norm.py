def layer_norm(x, dims, epsilon):
    """Zero mean and unit variance."""
    centred = x - jnp.mean(x, axis=dims, keepdims=True)
    return rms_norm(centred, dims, epsilon)
