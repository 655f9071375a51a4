class Axes:
    """The axes of a mesh: process groups along them, and a device's place."""

    def __init__(self, mesh):
        self.mesh = mesh
        self.groups = {names: self.group(names) for names in GROUPS}

    def group(self, names):
        """The group along axes, the first one outermost."""
        if len(names) == 1:
            return self.mesh.get_group(names[0])
        places = [self.mesh.mesh_dim_names.index(name) for name in names]
        others = [place for place in range(self.mesh.ndim) if place not in places]
        rows = self.mesh.mesh.permute(*others, *places).reshape(-1, self.size(*names))
        # Every process takes part in making every group.
        groups = [(row, self.in_order(row)) for row in rows.tolist()]
        return next(group for row, group in groups if dist.get_rank() in row)

    @staticmethod
    def in_order(ranks):
        """The group of devices in the order of a list."""
        is_sorted = ranks == sorted(ranks)
        return dist.new_group(ranks) if is_sorted else dist.new_group(ranks, sort_ranks=False)

    def __getitem__(self, names):
        return self.groups[(names,) if isinstance(names, str) else names]

    def size(self, *names):
        """The number of devices along axes."""
        return math.prod(self.mesh[name].size() for name in names)

    def index(self, *names):
        """The number of a device along axes."""
        index = 0
        for name in names:
            index = index * self.size(name) + self.mesh.get_local_rank(name)
        return index
