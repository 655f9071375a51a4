

def typed(mesh):
    """The mesh with shardings in the types of arrays."""
    explicit = (AxisType.Explicit,) * len(mesh.axis_names)
    return Mesh(mesh.devices, mesh.axis_names, axis_types=explicit)


def sharded_step(mesh, n=Sizes()):
    """The program on a mesh: a function of arrays by name that returns the outputs by name."""
    step = jax.jit(partial(global_step, n))

    def run(given):
        with jax.set_mesh(typed(mesh)):
            return step(given)

    return run
