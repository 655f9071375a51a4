def timetable(path, count):
    """When each of `count` microbatches enters a path of stages.

    It is in its k-th chunk k ticks later, and enters as soon as no stage would have two at once.
    """
    entries, busy, tick = [], set(), 0
    while len(entries) < count:
        wanted = {(tick + k, stage) for k, stage in enumerate(path)}
        if not busy & wanted:
            entries.append(tick)
            busy |= wanted
        tick += 1
    return np.array(entries)


def run_stages(layer, axis, chunks, first, given, sums, reverse=False):
    """Runs microbatches through the layers on the stages along a mesh axis.

    `layer` gets the carried values of a microbatch and its part of what is given: to each layer,
    to each layer for each microbatch, and to each microbatch. It returns carried values, values
    that are kept, and values that are summed up over microbatches. `first` are the carried values
    that enter, for all microbatches. In each tick a stage runs one chunk of layers for one
    microbatch, and sends the result on; a stage that waits computes on what nothing reads. All
    microbatches have gone forward before the first goes backward, whatever the plan's schedule.
    """
    of_layer, of_both, of_batch = given
    slots, me = layer_slots(chunks), lax.axis_index(axis)
    longest = max(layers for _, layers in chunks)
    stage_of = [stage for stage, _ in chunks]
    place = [stage_of[:k].count(stage) for k, stage in enumerate(stage_of)]
    order = [*range(len(chunks))][:: -1 if reverse else 1]
    path = [stage_of[chunk] for chunk in order]
    count = first[0].shape[0]
    entries = timetable(path, count)
    ticks = entries[-1] + len(path)
    hops = [(b - a) % len(slots) for a, b in zip(path, path[1:])]
    moves = sorted(set(hops))

    # For each tick and stage: whether it is busy, with which of its chunks, with which
    # microbatch, and from where that arrives. For each chunk of a stage, when it has which.
    table = np.zeros((ticks, len(slots), 4), np.int32)
    when = np.zeros((len(slots), slots.shape[1] // longest, count), np.int32)
    for k, (chunk, stage) in enumerate(zip(order, path)):
        source = 1 + moves.index(hops[k - 1]) if k else 0
        for microbatch, tick in enumerate(entries + k):
            table[tick, stage] = 1, place[chunk], microbatch, source
            when[stage, place[chunk], microbatch] = tick

    def move(x, hop):
        pairs = [(stage, (stage + hop) % len(slots)) for stage in range(len(slots))]
        return lax.ppermute(x, axis, pairs) if hop else x

    def tick(state, now):
        arrived, sums = state
        busy, chunk, microbatch, source = now

        def of_chunk(x):
            return lax.dynamic_slice_in_dim(x, chunk * longest, longest)

        def one(carried, given_part):
            is_layer, *parts = given_part
            after, kept, added = layer(carried, (*parts, *(x[microbatch] for x in of_batch)))
            carried = [jnp.where(is_layer, new, old) for new, old in zip(after, carried)]
            return carried, (kept, [jnp.where(is_layer & (busy == 1), x, 0) for x in added])

        options = [[x[microbatch] for x in first], *arrived]
        carried = [lax.select_n(source, *those) for those in zip(*options)]
        parts = [of_chunk(x) for x in of_layer] + [of_chunk(x)[:, microbatch] for x in of_both]
        is_layer = of_chunk(jnp.asarray(slots >= 0)[me])
        carried, (kept, added) = lax.scan(one, carried, (is_layer, *parts), reverse=reverse)
        sums = [
            lax.dynamic_update_slice_in_dim(x, of_chunk(x) + new, chunk * longest, 0)
            for x, new in zip(sums, added)
        ]
        arrived = [[move(x, hop) for x in carried] for hop in moves]
        return (arrived, sums), (carried, kept)

    nothing = [[jnp.zeros_like(x[0]) for x in first] for _ in moves]
    now = tuple(jnp.moveaxis(jnp.asarray(table)[:, me], 1, 0))
    (_, sums), (passed, kept) = lax.scan(tick, (nothing, list(sums)), now)

    def by_slot(x):
        x = jnp.moveaxis(x[jnp.asarray(when)[me]], 2, 1)
        return x.reshape(-1, *x.shape[2:])

    last = [x[entries + len(path) - 1] for x in passed]
    last = [jnp.where(me == path[-1], x, 0) for x in last]
    return last, [by_slot(x) for x in kept], sums
