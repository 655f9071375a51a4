def adam_step(w, m, v, rate, epsilon, decay):
    """A step of AdamW from its moments."""
    return w - rate * (m / (torch.sqrt(v) + epsilon) + decay * w)
