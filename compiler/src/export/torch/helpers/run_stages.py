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
    return entries


def exchange(sent, target, like, source, group):
    """Sends values to a stage and receives others from one; either may be no stage."""
    received = [torch.empty_like(x) for x in like] if source is not None else None
    sent = [funcol.wait_tensor(x.contiguous()) for x in sent] if target is not None else []
    work = [dist.P2POp(dist.isend, x, group=group, group_peer=target) for x in sent]
    for x in received or []:
        work.append(dist.P2POp(dist.irecv, x, group=group, group_peer=source))
    for one in dist.batch_isend_irecv(work) if work else []:
        one.wait()
    return received


def run_stages(layer, group, chunks, first, given, sums, reverse=False):
    """Runs microbatches through the layers on the stages of a group.

    `layer` gets the carried values of a microbatch and its part of what is given: to each layer,
    to each layer for each microbatch, and to each microbatch. It returns carried values, values
    that are kept, and values that are summed up over microbatches. `first` are the carried values
    that enter, for all microbatches. In each tick a stage runs one chunk of layers for one
    microbatch, and sends the result on, or waits. All microbatches have gone forward before the
    first goes backward, whatever the plan's schedule.
    """
    of_layer, of_both, of_batch = given
    slots, me = layer_slots(chunks), dist.get_rank(group)
    longest = max(layers for _, layers in chunks)
    stage_of = [stage for stage, _ in chunks]
    order = [*range(len(chunks))][:: -1 if reverse else 1]
    path = [stage_of[chunk] for chunk in order]
    count = first[0].shape[0]
    entries = timetable(path, count)
    table = {
        (tick + k, stage): (k, microbatch)
        for microbatch, tick in enumerate(entries)
        for k, stage in enumerate(path)
    }
    last = [torch.zeros_like(x) for x in first]
    kept = {}

    def run_chunk(chunk, microbatch, carried):
        begin = stage_of[:chunk].count(me) * longest
        for slot in range(begin, begin + longest)[:: -1 if reverse else 1]:
            if slots[me][slot] < 0:
                continue
            parts = [x[slot] for x in of_layer] + [x[slot][microbatch] for x in of_both]
            parts += [x[microbatch] for x in of_batch]
            carried, kept[slot, microbatch], added = layer(carried, parts)
            for x, new in zip(sums, added):
                x[slot] += new
        return carried

    arrived = None
    for tick in range(entries[-1] + len(path)):
        carried, target, source = [], None, None
        if (tick, me) in table:
            k, microbatch = table[tick, me]
            arrived = arrived if k else [x[microbatch] for x in first]
            carried = run_chunk(order[k], microbatch, arrived)
            if k + 1 < len(path):
                target = path[k + 1]
            else:
                for x, new in zip(last, carried):
                    x[microbatch] = new
        if table.get((tick + 1, me), (0, 0))[0]:
            source = path[table[tick + 1, me][0] - 1]
        if target == source == me:
            arrived = carried
            continue
        like = [x[0] for x in first]
        arrived = exchange(carried, target, like, source, group)

    # What a slot without a layer keeps is read by nothing.
    of_slot = [kept.get((slot, 0), next(iter(kept.values()))) for slot in range(len(slots[me]))]
    kept_all = [
        torch.stack(
            [
                torch.stack([kept.get((slot, m), of_slot[slot])[place] for m in range(count)])
                for slot in range(len(slots[me]))
            ]
        )
        for place in range(len(of_slot[0]))
    ]
    return last, kept_all, sums
