def rms_norm(x, dims, epsilon):
    """Unit mean square."""
    return x * lax.rsqrt(jnp.mean(x * x, axis=dims, keepdims=True) + epsilon)
