"""DLRM: bags of embeddings, products of each pair of features, click probabilities and a loss."""

import jax
import jax.numpy as jnp
import numpy as np

TABLES, ROWS, WIDTH, BAG, DENSE = 3, 50, 8, 4, 12


def init():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(np.float32) / 3
    return {
        "tables": [draw(ROWS, WIDTH) for _ in range(TABLES)],
        "bottom": [draw(DENSE, 16), draw(16, WIDTH)],
        "top": [draw(WIDTH + (TABLES + 1) ** 2, 16), draw(16, 1)],
    }


def mlp(weights, x):
    for w in weights:
        x = jax.nn.relu(x @ w)
    return x


def forward(params, dense, bags, clicked):
    x = mlp(params["bottom"], dense)
    pooled = [table[bags[:, i]].sum(axis=1) for i, table in enumerate(params["tables"])]
    features = jnp.stack([x, *pooled], axis=1)
    pairs = jnp.einsum("bnd,bmd->bnm", features, features).reshape(x.shape[0], -1)
    h = jnp.concatenate([x, pairs], axis=1)
    logit = (jax.nn.relu(h @ params["top"][0]) @ params["top"][1])[:, 0]
    loss = jnp.mean(jax.nn.softplus(logit) - clicked * logit)
    return {"loss": loss, "click": jax.nn.sigmoid(logit)}


def example():
    random = np.random.default_rng(1)
    dense = random.normal(size=(8, DENSE)).astype(np.float32)
    bags = random.integers(0, ROWS, (8, TABLES, BAG)).astype(np.int32)
    return init(), dense, bags, random.integers(0, 2, 8).astype(np.float32)
