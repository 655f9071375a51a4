

def placed(mesh, given, n=Sizes()):
    """Arguments on a mesh, each sharded as the plan wants it."""
    specs = {name: NamedSharding(typed(mesh), IN_SPECS[name]) for name in given}
    return {name: jax.device_put(x, specs[name]) for name, x in given.items()}


def by_layer(outputs, n=Sizes()):
    """Outputs as the program has them."""
    return outputs
