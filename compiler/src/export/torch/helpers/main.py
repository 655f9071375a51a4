

def small_arguments(n):
    """Random arguments, in float64 or whole numbers; so small that sums of products of many layers
    stay small."""
    random = torch.Generator().manual_seed(0)
    given = {}
    for name, (dims, planned) in ARGUMENTS.items():
        shape = [getattr(n, dim) for dim in dims]
        if planned.is_floating_point:
            scale = math.sqrt(math.prod(shape))
            given[name] = (0.2 + torch.rand(shape, generator=random)) / scale
        else:
            given[name] = torch.randint(2, shape, generator=random, dtype=torch.int32)
    return given


def compare(rank, store):
    """Runs the plan as one of the processes; the first compares the outputs."""
    count = math.prod(SMALL_MESH.values())
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=count)
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    mesh = init_device_mesh(
        "cpu", tuple(SMALL_MESH.values()), mesh_dim_names=tuple(SMALL_MESH)
    )
    given = small_arguments(SMALL)
    found = complete(sharded_step(mesh, SMALL)(placed(mesh, given, SMALL)), SMALL)
    expected = reference(SMALL, given)
    for name, value in expected.items() if rank == 0 else ():
        value = value.double()
        difference = (found[name].double() - value).abs().max().item()
        print(f"{name}: largest difference {difference:.1e}")
        assert difference <= 1e-9 * max(1e-6, value.abs().max().item()), name
    # A process that ends first would break the connections of the others.
    dist.barrier()
    dist.destroy_process_group()


def main():
    """Runs the plan in processes of this machine, and compares it with the unsharded program."""
    count = math.prod(SMALL_MESH.values())
    with tempfile.TemporaryDirectory() as folder:
        store = (f"file://{folder}/store",)
        multiprocessing.start_processes(compare, store, count, start_method="fork")


if __name__ == "__main__":
    main()
