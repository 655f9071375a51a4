

def placed(mesh, given, n=Sizes()):
    """Complete tensors as `DTensor`s, each sharded as the plan wants it."""

    def on_mesh(x, placements):
        return distribute_tensor(x, mesh_of(mesh, placements), list(placements.values()))

    return {name: on_mesh(x, IN_PLACEMENTS[name]) for name, x in given.items()}


def complete(outputs, n=Sizes()):
    """Outputs as the program has them, complete on every device."""
    return {name: x.full_tensor() for name, x in outputs.items()}
