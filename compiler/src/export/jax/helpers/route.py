def route(scores, choices, slots):
    """One where a token has a slot of one of the experts with its largest scores."""
    _, experts = lax.top_k(scores, choices)
    chosen = jax.nn.one_hot(experts, scores.shape[-1], dtype=scores.dtype).sum(-2)
    slot = (jnp.cumsum(chosen, axis=-2) - 1).astype(jnp.int32)
    return chosen[..., None] * jax.nn.one_hot(slot, slots, dtype=scores.dtype)
