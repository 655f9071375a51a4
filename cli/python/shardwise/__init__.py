"""Plans of sharded models: what `shardwise` prints, as Python values.

    import shardwise

    plan = shardwise.plan("mlp.shard", mesh="X=8,Y=4")
    print(plan)

Every function runs the command that is in this package. A source is the text of a program, or the
path of one: a `pathlib.Path`, or a string of one line that ends in `.shard`. Options are those of
the command, with underscores: `hardware="h100"`, `dim={"B": 1024}`, `explicit=True`.
"""

from ._command import Finding, ProgramError, Span, ToolError
from ._plan import Plan, Step, check, cost, plan, to_jax

__all__ = [
    "Finding",
    "Plan",
    "ProgramError",
    "Span",
    "Step",
    "ToolError",
    "check",
    "cost",
    "plan",
    "to_jax",
]
