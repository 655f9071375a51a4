

def placed(mesh, given, n=Sizes()):
    """Complete tensors as `DTensor`s, each sharded as the plan wants it; layers by stage."""

    def on_mesh(name, x):
        if name in STAGED:
            slots = torch.tensor(layer_slots(getattr(n, STAGED[name])))
            x = x[slots.flatten().clamp(min=0).to(x.device)]
        placements = IN_PLACEMENTS[name]
        return distribute_tensor(x, mesh_of(mesh, placements), list(placements.values()))

    return {name: on_mesh(name, x) for name, x in given.items()}


def complete(outputs, n=Sizes()):
    """Outputs as the program has them, complete on every device: layers in order."""

    def in_order(name, x):
        x = x.full_tensor()
        if name not in STAGED:
            return x
        slots = torch.tensor(layer_slots(getattr(n, STAGED[name]))).flatten()
        return x[slots.argsort(stable=True)[(slots < 0).sum() :].to(x.device)]

    return {name: in_order(name, x) for name, x in outputs.items()}
