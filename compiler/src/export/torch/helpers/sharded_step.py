

def sharded_step(mesh, n=Sizes()):
    """The plan on a mesh: a function of `DTensor`s by name that returns the outputs by name."""
    axes = Axes(mesh)
    out = {name: (mesh_of(mesh, of), list(of.values())) for name, of in OUT_PLACEMENTS.items()}

    def step(given):
        given = {name: x.to_local() for name, x in given.items()}
        with torch.no_grad(), torch.device(mesh.device_type):
            found = device_step(axes, n, given)
        return {name: DTensor.from_local(x, *out[name]) for name, x in found.items()}

    return step
