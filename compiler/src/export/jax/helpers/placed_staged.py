

def placed(mesh, given, n=Sizes()):
    """Arguments on a mesh, each sharded as the plan wants it; layers by stage."""

    def on_mesh(name, x):
        if name in STAGED:
            x = x[np.maximum(layer_slots(getattr(n, STAGED[name])).ravel(), 0)]
        return jax.device_put(x, NamedSharding(mesh, IN_SPECS[name]))

    return {name: on_mesh(name, x) for name, x in given.items()}


def by_layer(outputs, n=Sizes()):
    """Outputs as the program has them: layers in order."""

    def in_order(name, x):
        if name not in STAGED:
            return x
        slots = layer_slots(getattr(n, STAGED[name])).ravel()
        parts = (slice(None),) * len(PENDING.get(name, ()))
        spec = list(OUT_SPECS[name])
        spec[len(parts)] = None  # Layers of all stages on each.
        x = jax.device_put(x, NamedSharding(x.sharding.mesh, P(*spec)))
        return x[(*parts, np.argsort(slots, kind="stable")[sum(slots < 0) :])]

    return {name: in_order(name, x) for name, x in outputs.items()}
