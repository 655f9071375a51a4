def adam_step(w, m, v, rate, epsilon, decay):
    """A step of AdamW from its moments."""
    return w - rate * (m / (jnp.sqrt(v) + epsilon) + decay * w)
