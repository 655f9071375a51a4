

def mesh_of(mesh, placements):
    """A mesh with the axes in the order in which they split an array."""
    names = mesh.mesh_dim_names
    if tuple(placements) == names:
        return mesh
    order = [names.index(name) for name in placements]
    return DeviceMesh(mesh.device_type, mesh.mesh.permute(order), mesh_dim_names=tuple(placements))
