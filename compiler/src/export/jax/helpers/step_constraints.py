

def typed(mesh):
    """The mesh with shardings that the partitioner knows alone."""
    auto = (AxisType.Auto,) * len(mesh.axis_names)
    return Mesh(mesh.devices, mesh.axis_names, axis_types=auto)


def sharded_step(mesh, n=Sizes()):
    """The program on a mesh: a function of arrays by name that returns the outputs by name."""
    outputs = {name: NamedSharding(typed(mesh), spec) for name, spec in OUT_SPECS.items()}
    step = jax.jit(partial(global_step, n), out_shardings=outputs)

    def run(given):
        with jax.set_mesh(typed(mesh)):
            return step(given)

    return run
