"""Models that are written out, as people write them."""

import jax
import jax.numpy as jnp
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        split = lambda it: it.view(batch, length, self.heads, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.RMSNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """A decoder with its loss."""

    def __init__(self, width=32, heads=4, layers=3, vocabulary=64, length=16):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        scores = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


def decoder():
    return Decoder()


def large():
    return Decoder(width=2048, heads=16, layers=24, vocabulary=32000, length=2048)


class Experts(nn.Module):
    """A mixture in which every expert sees all tokens, and two of them count."""

    def __init__(self, width=16, hidden=24, experts=4):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.gate = nn.Parameter(torch.empty(experts, width, hidden))
        self.up = nn.Parameter(torch.empty(experts, width, hidden))
        self.down = nn.Parameter(torch.empty(experts, hidden, width))
        for weight in (self.gate, self.up, self.down):
            nn.init.normal_(weight)

    def forward(self, x):
        scores = self.router(x).softmax(-1)
        best, which = scores.topk(2, dim=-1)
        chosen = F.one_hot(which, scores.shape[-1]).to(x.dtype)
        shares = torch.einsum("btk,btke->bte", best / best.sum(-1, keepdim=True), chosen)
        hidden = F.silu(torch.einsum("btd,edf->btef", x, self.gate))
        hidden = hidden * torch.einsum("btd,edf->btef", x, self.up)
        return torch.einsum("btef,efd,bte->btd", hidden, self.down, shares)


def experts():
    return Experts()


class Residual(nn.Module):
    """Layers whose residual connections their parent adds, after a first one of another width."""

    def __init__(self, width=16, layers=4):
        super().__init__()
        widths = [8] + [width] * layers
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        x = self.layers[0](x)
        for layer in self.layers[1:]:
            x = x + torch.tanh(layer(x))
        return x, x.mean(dim=-1)


def residual():
    return Residual()


class Mixer(nn.Module):
    """An MLP-mixer of a sequence of layers, with patches that are cut out by a reshape."""

    def __init__(self, width=24, patches=16, classes=10):
        super().__init__()
        self.embed = nn.Linear(48, width)
        self.tokens = nn.ModuleList(nn.Linear(patches, patches) for _ in range(3))
        self.channels = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, classes)

    def forward(self, image):
        cut = image.unflatten(2, (4, 4)).unflatten(4, (4, 4))
        x = self.embed(cut.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2))
        for tokens, channels in zip(self.tokens, self.channels):
            x = x + F.gelu(tokens(x.transpose(1, 2)), approximate="tanh").transpose(1, 2)
            x = x + F.relu(channels(x))
        return self.head(x.mean(1)).log_softmax(-1)


def mixer():
    return Mixer()


class Recommender(nn.Module):
    """Embeddings and features that interact."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(32, 8) for _ in range(3))
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top = nn.Linear(24, 1)

    def forward(self, dense, ids):
        features = [self.bottom(dense)] + [t(ids[:, i]) for i, t in enumerate(self.tables)]
        stacked = torch.stack(features, dim=1)
        pairs = torch.bmm(stacked, stacked.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.top(torch.cat([features[0], pairs], dim=1))).squeeze(1)


def recommender():
    return Recommender()


class Masked(nn.Module):
    """Masks as buffers, masks by comparison, and elements picked along a dimension."""

    def __init__(self, length=8):
        super().__init__()
        self.register_buffer("bias", torch.tril(torch.ones(length, length)).view(1, 1, length, -1))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x, ids):
        length = x.shape[-1]
        scores = x.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
        seen = torch.arange(length)[None, :] < ids[:, :1]
        kept = torch.where(seen[:, None, None, :], x, torch.zeros_like(x)) * self.scale
        return scores.softmax(-1), kept, x.gather(-1, ids[:, None, None, :].expand(-1, 2, length, -1))


model = Masked()


def masked():
    return model


class Losses(nn.Module):
    """Losses that leave targets out: those that are no class, and a class."""

    def forward(self, scores, labels):
        some = labels.masked_fill(labels < 3, -100)
        mean = F.cross_entropy(scores.flatten(0, 1), some.flatten())
        total = F.cross_entropy(scores.mT, labels, ignore_index=4, reduction="sum")
        return mean, total, F.nll_loss(scores.log_softmax(-1).mT, labels, ignore_index=1)


def losses():
    return Losses()


class Special(nn.Module):
    """Functions that the language does not have."""

    def forward(self, x):
        y = torch.lgamma(x * x + 1.5)
        return y.median(-1).values, torch.cummax(y, dim=1).values


def special():
    return Special()


# Of the modules that are exported to JAX.
OPAQUE = {
    "lgamma": jax.lax.lgamma,
    "median_1": lambda a: jnp.sort(a, -1)[..., (a.shape[-1] - 1) // 2],
    "cummax_1": lambda a: jax.lax.cummax(a, 1),
}

class Images(nn.Module):
    """Convolutions whose results are normalized by what training has kept."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.bare = nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8, affine=False)
        for norm in (self.norm, self.bare):
            norm.running_mean.copy_(torch.linspace(-1.0, 1.0, 8))
            norm.running_var.copy_(torch.linspace(0.5, 2.0, 8))

    def forward(self, image):
        x = F.relu(self.norm(self.first(image)))
        return self.bare(x + self.second(x)).mean((2, 3))


def images():
    return Images()


class Bags(nn.Module):
    """Bags of rows, summed with weights, as means beside rows that fill up, and as maxima."""

    def __init__(self):
        super().__init__()
        self.summed = nn.EmbeddingBag(32, 8, mode="sum")
        self.filled = nn.EmbeddingBag(32, 8, mode="mean", padding_idx=3)
        self.means = nn.EmbeddingBag(32, 8)
        self.largest = nn.EmbeddingBag(32, 8, mode="max")

    def forward(self, ids, weights):
        some = ids.masked_fill(ids < 16, 3)
        return (
            self.summed(ids, per_sample_weights=weights) + self.summed(ids),
            self.filled(some) * self.means(ids),
            self.largest(ids),
        )


def bags():
    return Bags()


CASES = {
    "decoder": "ids=int64[B:2, T:16], labels=int64[B:2, T:16]",
    "experts": "f32[B:2, T:4, 16]",
    "residual": "f32[B:4, 8]",
    "mixer": "image=f32[B:2, 3, 16, 16]",
    "recommender": "f32[B:4, 4], int64[B:4, 3]",
    "losses": "f32[B:2, T:8, V:8], int64[B:2, T:8]",
    "special": "f32[B:2, T:4, 6]",
    "images": "f32[B:4, 3, 8, 8]",
    "bags": "int64[B:4, T:6], f32[B:4, T:6]",
    "masked": "f32[B:2, N:2, T:8, 8], int64[B:2, 8]",
}
