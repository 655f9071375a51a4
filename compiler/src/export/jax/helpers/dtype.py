def dtype(planned):
    """The planned type; float64 where JAX computes in it, to compare every digit."""
    is_float = jnp.issubdtype(planned, jnp.floating)
    return jnp.float64 if is_float and jax.config.jax_enable_x64 else planned
