"""Programs of functions in JAX: `shardwise import jax models.py:forward --args '…'`.

A function is traced to a jaxpr (`target`), its calls are inlined (`flatten`), every primitive
becomes statements (`convert`, and the modules of the primitives), expressions that the language has
a name for are recognised (`fold`), and the result is written (`spell`). Axes become dimensions by
what the operations tie together (`dims`).
"""
