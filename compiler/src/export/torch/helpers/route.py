def route(scores, choices, slots):
    """One where a token has a slot of one of the experts with its largest scores."""
    experts = torch.sort(scores, descending=True, stable=True).indices[..., :choices]
    chosen = functional.one_hot(experts, scores.shape[-1]).sum(-2)
    slot = (chosen.cumsum(-2) - 1)[..., None]
    free = slot == torch.arange(slots, device=scores.device)
    return (chosen[..., None] * free).to(scores.dtype)
