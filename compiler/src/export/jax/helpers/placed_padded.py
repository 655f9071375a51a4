

def placed(mesh, given, n=Sizes()):
    """Arguments on a mesh, each sharded as the plan wants it; padded where blocks are."""

    def on_mesh(name, x):
        widths = [(0, 0)] * np.ndim(x)
        for place, dim in PADDED_IN.get(name, {}).items():
            widths[place] = (0, getattr(n, f"{dim}_padded") - getattr(n, dim))
        return jax.device_put(jnp.pad(x, widths), NamedSharding(mesh, IN_SPECS[name]))

    return {name: on_mesh(name, x) for name, x in given.items()}


def by_layer(outputs, n=Sizes()):
    """Outputs as the program has them: without what blocks are padded with."""

    def cut(name, x):
        spec = list(OUT_SPECS[name])
        for place, dim in PADDED_OUT.get(name, {}).items():
            spec[place] = None
            x = jax.device_put(x, NamedSharding(x.sharding.mesh, P(*spec)))
            x = lax.slice_in_dim(x, 0, getattr(n, dim), axis=place)
        return x

    return {name: cut(name, x) for name, x in outputs.items()}
