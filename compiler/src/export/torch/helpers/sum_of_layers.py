def sum_of_layers(x, chunks, me):
    """The sum over the layers of a stage."""
    return x[[slot for slot, layer in enumerate(layer_slots(chunks)[me]) if layer >= 0]].sum(0)
