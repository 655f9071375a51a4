

def sharded_step(mesh, n=Sizes()):
    """The plan on a mesh: a function of arrays by name that returns the outputs by name."""
    step = jax.shard_map(
        partial(device_step, n),
        mesh=mesh,
        in_specs=(IN_SPECS,),
        out_specs=OUT_SPECS,
        check_vma=False,
    )
    return jax.jit(step)


def placed(mesh, given):
    """Arguments on a mesh, each sharded as the plan wants it."""
    specs = {name: NamedSharding(mesh, IN_SPECS[name]) for name in given}
    return {name: jax.device_put(x, specs[name]) for name, x in given.items()}
