"""Small functions, each with what one model or another has; `CASES` are their arguments."""

import jax
import jax.numpy as jnp
import numpy as np


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def ids(limit, *shape):
    return np.random.default_rng(7).integers(0, limit, shape).astype(np.int32)


def square_matrix(w):
    """One dimension twice, in both orders."""
    return w + w.T + jnp.diag(jnp.ones(w.shape[0])) @ w @ w


def outer(x):
    return x[:, :, None] * x[:, None, :] - jnp.einsum("bd,be->bed", x, x)


def gram(x):
    return (x @ x.T) @ (x @ x.T).T


def strided(x):
    return x[:, ::2] * x[:, 1::2]


def strided_in_part(x):
    """Steps that leave out a part of the axis, or end in one."""
    return x[:, 1::3] + x[:, :14:3][:, :5], x[::3]


def padded_between(x):
    return jax.lax.pad(x, 7.0, ((0, 0, 2), (1, -2, 3)))


def scanned_in_a_tree(decay, x):
    """A linear recurrence, as `associative_scan` computes it."""

    def joined(a, b):
        return a[0] * b[0], a[1] * b[0] + b[1]

    return jax.lax.associative_scan(joined, (decay, x), axis=1)[1]


def numbered(index, x, y, z):
    """A choice among several, of each element and of all."""
    one = jax.lax.select_n(index, x, y, z)
    return one + jax.lax.switch(index[0, 0], [jnp.sin, jnp.exp, jnp.square], x)


def numbered_outside(x, y, z):
    """Constant numbers before the first case and after the last."""
    first = jax.lax.select_n(jnp.int32(-3), x, y, z)
    return first - 2 * jax.lax.select_n(jnp.int32(5), x, y, z)


def interleaved_rotary(x):
    """Pairs side by side, as GPT-J rotates them."""
    even, odd = x[..., ::2], x[..., 1::2]
    angle = jnp.arange(x.shape[1])[:, None] / 100 ** (jnp.arange(even.shape[-1]) / 4)
    a = even * jnp.cos(angle) - odd * jnp.sin(angle)
    b = odd * jnp.cos(angle) + even * jnp.sin(angle)
    return jnp.stack([a, b], axis=-1).reshape(x.shape)


def picked(x, labels):
    """The same elements by indices of rows, and along an axis."""
    rows = jnp.arange(x.shape[0])
    return x[rows, labels] + jnp.take_along_axis(x, labels[:, None], axis=1)[:, 0]


def best(x):
    return jnp.argmax(x, axis=-1), jax.lax.top_k(x, 3), x.min(axis=0)


def running(x):
    return jnp.cumsum(x, axis=1) + jax.lax.cumsum(x, axis=0, reverse=True)


def recurrent(w, x):
    """A recurrent network: carries and what steps collect."""

    def step(carry, x):
        h, total = carry
        h = jnp.tanh(x + h @ w)
        return (h, total + h.sum()), (h, h * total)

    start = jnp.zeros((x.shape[1], x.shape[2])), 0.0
    (h, total), (hs, others) = jax.lax.scan(step, start, x)
    return h, total, hs, others


def swapped(x, y):
    """Carries that trade places, and are read after the loop as before it."""
    a, b = jax.lax.fori_loop(0, 3, lambda i, c: (c[1] * 0.5, c[0] + c[1]), (x, y))
    return a + x, b - y


def counted(x):
    return jax.lax.fori_loop(1, 5, lambda i, h: h * 0.5 + i, x)


def nested(params, x):
    """Layers in groups, as of local and global attention."""

    def inner(x, w):
        return jnp.tanh(x @ w), None

    def outer_layer(x, group):
        x, _ = jax.lax.scan(inner, x, group["inner"])
        return x + x @ group["outer"], None

    return jax.lax.scan(outer_layer, x, params)[0]


def collected_layers(params, x):
    """Layers whose activations all leave the loop."""

    def layer(x, w):
        x = jnp.tanh(x @ w)
        return x, x.mean(axis=-1)

    return jax.lax.scan(layer, x, params)


def whole_sequence(x, w):
    """Each step reads its own element and all of them."""

    def step(h, row):
        return h + jax.nn.softmax(x @ row) @ x @ w, row.sum()

    return jax.lax.scan(step, jnp.zeros(x.shape[1]), x)


def tied_layers(w, x):
    """A stack of weights that is read in two loops."""
    body = lambda x, w: (jnp.tanh(x @ w), None)
    x, _ = jax.lax.scan(body, x, w)
    return jax.lax.scan(body, x, w)[0]


def conditions(x, y):
    is_in = (x > 0) & (y < 0.5) | ~(x >= y)
    return jnp.where(is_in, x, -y) + jnp.sign(x) + jnp.clip(y, -0.5, 0.5) + jnp.maximum(0.1, x)


def powers(x):
    x = jnp.abs(x) + 0.5
    return x**3 + x**-2 + x**1.5 + jnp.log1p(x) + jnp.exp2(x) + 2.0**x + jnp.expm1(x) + 1 / x


def activations(x):
    ours = 0.5 * x * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return ours + jax.nn.gelu(x) + jax.nn.silu(x) + jax.nn.softplus(x) + jax.nn.elu(x)


def norms(x, scale):
    """Norms of different epsilons, of which the language has one."""
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    wide = (x - mean) / jnp.sqrt(variance + 1e-1)
    close = (x - mean) * jax.lax.rsqrt(variance + 1e-6)
    return wide * scale + close + x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 0.5)


def entropies(logits):
    p = jax.nn.softmax(logits, axis=0)
    return -(p * jax.nn.log_softmax(logits, axis=0)).sum(0), jax.nn.logsumexp(logits, axis=(0, 1))


def padded(x):
    return jnp.pad(x, ((1, 2), (0, 3))) @ jnp.pad(x, ((1, 2), (0, 3))).T


def padded_with_ones(x, numbers):
    """Before and after, and before alone."""
    around = jnp.pad(x, ((1, 2), (0, 3)), constant_values=1)
    return around.sum(axis=1), jnp.pad(numbers, ((2, 0), (0, 0)), constant_values=-100)


def joined(x, y):
    wide = jnp.concatenate([x, y, jnp.ones((x.shape[0], 2))], axis=1)
    return jnp.concatenate([wide, wide[:1] * 2], axis=0)


def divided(x):
    """The first part has no elements."""
    _, first, last = jnp.split(x, [0, 2], axis=1)
    return first.sum() + last


def groups(x):
    """Split, regrouped in another way, and merged again."""
    x = x.reshape(4, 6, 5).transpose(2, 0, 1).reshape(5, 3, 8)
    return x.sum(axis=1), x.reshape(-1)


def captured(x):
    table = np.linspace(0, 1, 24, dtype=np.float32).reshape(4, 6)
    return x @ table + np.arange(6, dtype=np.float32)


def repeated(k):
    """Heads of keys repeated for each group of queries."""
    return jnp.repeat(k, 3, axis=1) * 2, jnp.tile(k, (1, 2))


def window(x, at):
    return jax.lax.dynamic_slice_in_dim(x, at, 3, axis=1), x[:, at], x[at]


def one_sized(x):
    return x[:, :1] + x[:, None, 0], x.sum(axis=0, keepdims=True)


def checkpointed(w, x):
    block = jax.checkpoint(lambda x, w: (jax.nn.relu(x @ w), None))
    return jax.lax.scan(block, x, w)[0]


def constants(x):
    return jnp.zeros_like(x), jnp.full((3,), 2.0), x, x


def products(a, b, c):
    """A chain, a row-wise product, a diagonal, a matrix with itself."""
    return jnp.einsum("ij,jk,kl->il", a, b, c), jnp.einsum("ij,ij->i", a, a), a @ b @ b.T @ b


def shared_projection(x, w):
    """Attention whose queries, keys and values are one array."""
    q = (x @ w).reshape(2, 5, 2, 3)
    scores = jax.nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, q))
    return jnp.einsum("bnts,bsnh->btnh", scores, q).reshape(2, 5, 6) @ w


def near_norms(x):
    """What is almost a norm: means along one axis and squares along another."""
    crossed = (x - x.mean(0)) * jax.lax.rsqrt(x.var(1, keepdims=True) + 1e-6)
    uncentred = jax.lax.rsqrt((x**2).mean(1, keepdims=True) + 1e-6)
    return crossed, (x - x.mean(1, keepdims=True)) * uncentred, x * jax.lax.rsqrt((x**2).mean() + 1)


def unshifted(x):
    return jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), jnp.log(jnp.exp(x).sum(0))


def numbers(x):
    two = jnp.float32(2.0)
    return jnp.exp2(two) * x, jnp.clip(two, 0, 1) + x, jnp.ones((4, 6)).sum(0) * x, two**3 * x


def triangles(x):
    return jnp.eye(4) @ x, jnp.triu(jnp.ones((4, 4))) @ x, jnp.linspace(0.0, 1.0, 4)[:, None] * x


def whole_numbers(i):
    return i * 2 + 1, i == 3, jnp.where(i > 2, i, -i), i.astype(jnp.float32) / 2


def gradient(w, x):
    """A loss and its gradient, as JAX derives it."""
    loss = lambda w: ((jax.nn.relu(x @ w) @ w.T - x) ** 2).mean()
    return jax.value_and_grad(loss)(w)


def mapped_over(x, w):
    return jax.vmap(lambda row: row @ w)(x), jax.vmap(jax.nn.softmax)(x)


def convolved(x, kernel, grouped, depthwise):
    """Convolutions: by a stride with uneven padding, of groups, and of each channel in time."""
    spaces = ("NHWC", "HWIO", "NHWC")
    conv = jax.lax.conv_general_dilated
    same = conv(x, kernel, (1, 1), "SAME", dimension_numbers=spaces)
    halved = conv(same, grouped, (2, 2), "SAME", dimension_numbers=spaces, feature_group_count=2)
    rows = halved.reshape(2, -1, 6)
    times = ("NTC", "TIO", "NTC")
    past = conv(rows, depthwise, (1,), [(3, 0)], dimension_numbers=times, feature_group_count=6)
    return same, halved, past


def pointwise(x, kernel):
    """A convolution that only mixes channels, at every other place."""
    numbers = ("NCHW", "OIHW", "NCHW")
    return jax.lax.conv_general_dilated(x, kernel, (2, 2), "VALID", dimension_numbers=numbers)


def scattered(x, rows, ids):
    """Rows added up at indices: to others, and to nothing."""
    return x.at[ids].add(rows), jax.ops.segment_sum(rows, ids, num_segments=4)


def ordered(x):
    return jnp.sort(x), jnp.argsort(x, axis=0)


def chosen(x, w):
    """A branch that is taken or not."""
    return jax.lax.cond(x.sum() > 0, lambda x: x @ w, lambda x: x - 1.0, x)


def last_rows(x, ids):
    """A row of each element of a batch."""
    return x[jnp.arange(x.shape[0]), ids]


def banded(x):
    """Masks that are captured: of a window, and numbers that do not begin with zero."""
    length = x.shape[-1]
    apart = np.arange(length)[:, None] - np.arange(length)
    recent = jnp.asarray((apart >= 0) & (apart < 3))
    ahead = jnp.asarray(apart <= 1)
    masked = jnp.where(recent, x, -1e9)
    return jax.nn.softmax(masked), jnp.where(ahead, x, 0.0), x + jnp.asarray(np.arange(3, 3 + length))


def backwards(w, x):
    """Scans from the last element to the first, of a sequence and of layers, and reversals."""

    def step(h, x):
        h = jnp.tanh(x + h @ w[0])
        return h, h * 2

    h, hs = jax.lax.scan(step, jnp.zeros(x.shape[1:]), x, reverse=True)
    layer = lambda x, w: (jnp.tanh(x @ w), None)
    return h, hs, jax.lax.scan(layer, x, w, reverse=True)[0], jnp.flip(x, (0, 2))


def gradient_of_scan(w, x):
    """The gradient of a loop, which JAX runs backwards."""


    def loss(w):
        step = lambda h, x: (jnp.tanh(x + h @ w), None)
        return jax.lax.scan(step, jnp.zeros(x.shape[1:]), x)[0].sum()

    return jax.grad(loss)(w)


def long_chain(x):
    for _ in range(400):
        x = jnp.sin(x) + 0.5
    return x


def diagonals(x, y):
    return jnp.diagonal(x), jnp.trace(x), jnp.diagonal(y)


def masks(x, y):
    is_above = x > 0
    both = (is_above == (x > 1)) == True  # noqa: E712
    return is_above.any(axis=1), is_above.all(axis=0), (y > 0).any(), jnp.where(both, x, y)


def at_numbers(x):
    twice = jnp.array([1, 1])
    return x[twice], x.at[1].add(1.0), x.at[:, 2].add(2.0), x.at[twice].add(1.0)


def greek(λ):
    return jnp.sin(λ)


CASES = {
    "square_matrix": (draw(6, 6),),
    "outer": (draw(3, 5),),
    "gram": (draw(4, 5),),
    "strided": (draw(3, 8),),
    "strided_in_part": (draw(8, 16),),
    "padded_between": (draw(4, 6),),
    "scanned_in_a_tree": (draw(2, 8), draw(2, 8, seed=1)),
    "numbered": (ids(3, 4, 6), draw(4, 6), draw(4, 6, seed=1), draw(4, 6, seed=2)),
    "numbered_outside": (draw(4, 6), draw(4, 6, seed=1), draw(4, 6, seed=2)),
    "interleaved_rotary": (draw(2, 5, 8),),
    "picked": (draw(4, 6), ids(6, 4)),
    "best": (draw(4, 6),),
    "running": (draw(4, 6),),
    "recurrent": (draw(4, 4), draw(6, 3, 4, seed=1)),
    "swapped": (draw(3, 4), draw(3, 4, seed=1)),
    "counted": (draw(3, 4),),
    "nested": ({"inner": draw(2, 3, 4, 4), "outer": draw(2, 4, 4)}, draw(5, 4)),
    "collected_layers": (draw(3, 4, 4), draw(5, 4)),
    "whole_sequence": (draw(5, 4), draw(4, 4)),
    "tied_layers": (draw(3, 4, 4), draw(5, 4)),
    "conditions": (draw(4, 6), draw(4, 6, seed=1)),
    "powers": (draw(4, 6),),
    "activations": (draw(4, 6),),
    "norms": (draw(4, 6), draw(6)),
    "entropies": (draw(4, 6),),
    "padded": (draw(4, 6),),
    "padded_with_ones": (draw(4, 6), ids(6, 4, 5)),
    "joined": (draw(4, 6), draw(4, 3)),
    "groups": (draw(24, 5),),
    "divided": (draw(3, 5),),
    "captured": (draw(3, 4),),
    "repeated": (draw(4, 2),),
    "window": (draw(5, 6), jnp.int32(2)),
    "one_sized": (draw(5, 6),),
    "checkpointed": (draw(3, 4, 4), draw(5, 4)),
    "constants": (draw(5, 6),),
    "products": (draw(4, 4), draw(4, 4, seed=1), draw(4, 5)),
    "shared_projection": (draw(2, 5, 6), draw(6, 6)),
    "near_norms": (draw(4, 4),),
    "unshifted": (draw(4, 6),),
    "numbers": (draw(4, 6),),
    "triangles": (draw(4, 4),),
    "whole_numbers": (np.arange(6, dtype=np.int32),),
    "gradient": (draw(6, 5), draw(4, 6)),
    "convolved": (draw(2, 8, 8, 4), draw(3, 3, 4, 4), draw(3, 3, 2, 6), draw(4, 1, 6)),
    "pointwise": (draw(2, 4, 6, 6), draw(5, 4, 1, 1)),
    "scattered": (draw(4, 5), draw(6, 5, seed=1), ids(4, 6)),
    "ordered": (draw(4, 6),),
    "chosen": (draw(4, 4), draw(4, 4, seed=1)),
    "last_rows": (draw(4, 6, 3), ids(6, 4)),
    "banded": (draw(6, 6),),
    "backwards": (draw(5, 4, 4), draw(6, 3, 4, seed=1)),
    "gradient_of_scan": (draw(4, 4), draw(6, 3, 4, seed=1)),
    "mapped_over": (draw(3, 4), draw(4, 5)),
    "long_chain": (draw(3, 4),),
    "diagonals": (draw(4, 4), draw(4, 6)),
    "masks": (draw(4, 6), draw(4, 6, seed=1)),
    "at_numbers": (draw(4, 6),),
    "greek": (draw(4, 6),),
}
