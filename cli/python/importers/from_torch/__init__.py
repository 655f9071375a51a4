"""Programs of models in PyTorch: `shardwise import torch models.py:model --args '…'`.

`torch.export` gives the graph of a model (`export`); layers of a module list that do the same with
other parameters are found in it (`layers`); the graph is then run by functions of `jax.numpy`
(`functions`, `run`), layers as `lax.scan`, and what JAX traces is imported as any function in JAX
is (`from_jax`).

The alternative, rules from ATen to nodes beside those from jaxprs, would have a second copy of
every decision about dimensions, and of all that recognises norms, masks and softmax. What remains
for this package is what PyTorch has and JAX does not: some two hundred operations by name, most of
which are one line of `jax.numpy`, and layers in lists. The price is that `import torch` needs JAX.
"""
