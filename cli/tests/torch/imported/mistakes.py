"""Models that cannot be imported, each for a reason of its own."""

import torch
from torch import nn

# The lines of these models are in the errors that a test expects.


class Sampled(nn.Module):
    """Numbers that are drawn inside of the model."""

    def forward(self, x):
        x = torch.sin(x)
        # What is drawn depends on the state of a generator.
        return torch.multinomial(x.softmax(-1), 1)


class Branching(nn.Module):
    """What runs depends on data."""

    def forward(self, x):
        return x if x.sum() > 0 else -x


class Smallest(nn.Module):

    def forward(self, x):
        return x.topk(2, largest=False).values


def sampled():
    return Sampled()


def branching():
    return Branching()


def smallest():
    return Smallest()


def function():
    return 1


def raising():
    raise ValueError("too cold")


class Bags(nn.Module):
    """Bags of lengths that depend on an argument."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(32, 8, mode="sum")

    def forward(self, ids, offsets):
        return self.bag(ids, offsets)


def bags():
    return Bags()
