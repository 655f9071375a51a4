"""Two towers and a contrastive loss of all pairs in the batch, as in CLIP."""

import jax
import jax.numpy as jnp
import numpy as np

IMAGE, TEXT, WIDTH = 20, 12, 8


def init():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(np.float32) / 3
    return {
        "image": [draw(IMAGE, 32), draw(32, WIDTH)],
        "text": [draw(TEXT, 32), draw(32, WIDTH)],
        "temperature": jnp.float32(0.5),
    }


def tower(weights, x):
    x = jax.nn.relu(x @ weights[0]) @ weights[1]
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def forward(params, images, texts):
    a, b = tower(params["image"], images), tower(params["text"], texts)
    logits = a @ b.T * jnp.exp(params["temperature"])
    matches = jnp.eye(logits.shape[0])
    of_images = -jnp.sum(matches * jax.nn.log_softmax(logits, axis=1), axis=1)
    of_texts = jax.nn.logsumexp(logits, axis=0) - jnp.sum(matches * logits, axis=0)
    return (of_images.mean() + of_texts.mean()) / 2


def example():
    random = np.random.default_rng(1)
    return (
        init(),
        random.normal(size=(8, IMAGE)).astype(np.float32),
        random.normal(size=(8, TEXT)).astype(np.float32),
    )
