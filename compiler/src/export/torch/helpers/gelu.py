def gelu(x):
    """GELU, with the approximation by tanh."""
    return functional.gelu(x, approximate="tanh")
