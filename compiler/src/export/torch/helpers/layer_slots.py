def layer_slots(chunks):
    """The layers that each stage has, by slot; -1 where it has fewer than others.

    `chunks` are the stage and the number of layers of each chunk, in the order of layers.
    """
    longest = max(layers for _, layers in chunks)
    stages = [[] for _ in range(1 + max(stage for stage, _ in chunks))]
    first = 0
    for stage, layers in chunks:
        of_chunk = range(first, first + layers)
        stages[stage] += [*of_chunk, *[-1] * (longest - layers)]
        first += layers
    most = max(len(slots) for slots in stages)
    return [slots + [-1] * (most - len(slots)) for slots in stages]
