

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
