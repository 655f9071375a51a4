

def small_arguments(n):
    """Random arguments, in float64 or whole numbers; so small that sums of products of many layers
    stay small."""
    random = np.random.default_rng(0)
    given = {}
    for name, (pending, dims, planned) in ARGUMENTS.items():
        shape = [SMALL_MESH[axis] for axis in pending] + [getattr(n, d) for d in dims]
        if jnp.issubdtype(planned, jnp.floating):
            scale = math.sqrt(math.prod(shape))
            given[name] = random.uniform(0.2, 1.2, shape) / scale
        else:
            given[name] = random.integers(0, 2, shape).astype(np.int32)
    return given


def combined(name, x, axes):
    """The value of what is given or left in parts."""
    reduce = getattr(np, REDUCTIONS.get(name, "sum"))
    # A sum of whole numbers is of a wider type in numpy.
    return reduce(x, axis=axes).astype(x.dtype)


def complete(given):
    """Arguments that are given in parts, as one."""
    pending = {name: tuple(range(len(of[0]))) for name, of in ARGUMENTS.items()}
    return {name: combined(name, x, pending[name]) for name, x in given.items()}


def main():
    """Runs the plan on virtual devices, and compares it with the unsharded program."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", math.prod(SMALL_MESH.values()))
    jax.config.update("jax_enable_x64", True)
    mesh = jax.make_mesh(tuple(SMALL_MESH.values()), tuple(SMALL_MESH))
    given = small_arguments(SMALL)
    found = by_layer(sharded_step(mesh, SMALL)(placed(mesh, given, SMALL)), SMALL)
    expected = jax.jit(partial(reference, SMALL))(complete(given))
    for name, value in expected.items():
        parts = tuple(range(len(PENDING.get(name, ()))))
        total = combined(name, np.asarray(found[name]), parts)
        difference = np.abs(total.astype(np.float64) - value).max(initial=0)
        print(f"{name}: largest difference {difference:.1e}")
        assert difference <= 1e-9 * max(1e-6, np.abs(value).max(initial=0)), name


if __name__ == "__main__":
    main()
