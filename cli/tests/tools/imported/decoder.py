import jax
import jax.numpy as jnp


def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def layer(x, p):
    h = rms_norm(x, p["attn_norm"])
    q = jnp.einsum("btd,dnh->btnh", h, p["wq"])
    k = jnp.einsum("bsd,dnh->bsnh", h, p["wk"])
    v = jnp.einsum("bsd,dnh->bsnh", h, p["wv"])
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) * q.shape[-1] ** -0.5
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    probs = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    out = jnp.einsum("bnts,bsnh->btnh", probs, v)
    x = x + jnp.einsum("btnh,nhd->btd", out, p["wo"])
    h = rms_norm(x, p["mlp_norm"])
    return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"], None


def loss(params, ids, labels):
    x = params["embed"][ids]
    x, _ = jax.lax.scan(layer, x, params["layers"])
    logp = jax.nn.log_softmax(x @ params["embed"].T)
    return -jnp.take_along_axis(logp, labels[..., None], axis=-1).mean()


def shapes(layers=12, width=2048, heads=16, hidden=8192, vocabulary=32000):
    bf16 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.bfloat16)
    heads_of = (width, heads, width // heads)
    per_layer = {
        "attn_norm": bf16(layers, width),
        "wq": bf16(layers, *heads_of),
        "wk": bf16(layers, *heads_of),
        "wv": bf16(layers, *heads_of),
        "wo": bf16(layers, heads, width // heads, width),
        "mlp_norm": bf16(layers, width),
        "gate": bf16(layers, width, hidden),
        "up": bf16(layers, width, hidden),
        "down": bf16(layers, hidden, width),
    }
    return {"embed": bf16(vocabulary, width), "layers": per_layer}
