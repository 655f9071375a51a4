def device_of(given):
    """Where the arguments are: what waits on the host comes back there."""
    return next(iter(given.values())).device
