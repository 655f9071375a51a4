"""Uses the installed package as its users do: run by the tests in a fresh virtual environment.

    check_wheel.py PROGRAM.shard
"""

import sys
from collections.abc import Callable
from importlib import metadata, resources
from pathlib import Path

import shardwise
from shardwise._plan import duration

UNKNOWN = """\
hardware tpu-v5p
mesh X=4
dim B=8, D=4
input x[B_X, D]
y = x *D W
output y
"""


def raised(source: str, **options: str) -> shardwise.ProgramError:
    try:
        shardwise.plan(source, **options)
    except shardwise.ProgramError as error:
        return error
    raise AssertionError("no error")


def failed(call: Callable[[], object]) -> str:
    try:
        call()
    except shardwise.ToolError as error:
        return str(error)
    raise AssertionError("no error")


def main(path: str) -> None:
    plan: shardwise.Plan = shardwise.plan(Path(path))
    assert str(plan).startswith("plan\n"), plan
    assert plan.json["schema"] == "shardwise.plan/2" and plan.json["program"] == "fsdp_tp"
    assert plan.mesh == {"X": 16, "Y": 4}
    kinds = [step.kind for step in plan.steps]
    assert kinds.count("all_gather") == 3 and kinds.count("reduce_scatter") == 1, kinds
    assert str(shardwise.plan(str(plan))) == str(plan), "a plan is a program"

    # Options are those of the command.
    small = shardwise.plan(path, mesh={"X": 4, "Y": 2}, hardware="h100")
    assert small.mesh == {"X": 4, "Y": 2} and small.json["hardware"] == "h100"
    assert small.cost["scheduled_s"] != plan.cost["scheduled_s"]

    # Notebooks show a table.
    table = plan._repr_html_()
    assert table.count("<tr>") == len(plan.steps) + 1 and "AllGather" in table, table
    assert [duration(time) for time in (9.996e-4, 1.49e-3)] == ["1 ms", "1.49 ms"]

    # Errors have a code, a message and a span.
    error = raised(UNKNOWN)
    assert error.code == "SW101" and error.message == "`W` is not defined", error
    span = error.span
    assert span is not None and UNKNOWN[span.start : span.end] == "W", span
    assert (span.line, span.column) == (5, 10), span
    assert [finding.code for finding in shardwise.check(UNKNOWN)] == ["SW101"]
    assert raised(UNKNOWN, objective="overlap").code == "SW101", "with an option of plans only"
    try:
        shardwise.plan(Path(path), memory="1MB")
    except shardwise.ToolError as too_small:
        assert too_small.code == "SW505" and "1 MB" in too_small.message, too_small
    else:
        raise AssertionError("no error")
    for function in (shardwise.plan, shardwise.check, shardwise.cost):
        assert "nowhere.shard" in failed(lambda: function(Path("nowhere.shard")))
        assert "`output` is no option here" in failed(lambda: function(path, output="o"))
    two = ["one.toml", "two.toml"]
    assert "cannot read `one.toml`" in failed(lambda: shardwise.plan(path, hardware_file=two))

    # Each finding says its file, where there is one.
    for name in ("one.shard", "two.shard"):
        Path("programs", "deep").mkdir(parents=True, exist_ok=True)
        Path("programs", "deep", name).write_text(UNKNOWN)
    found = shardwise.check(Path("programs"))
    files = [str(Path("programs", "deep", name)) for name in ("one.shard", "two.shard")]
    assert [finding.path for finding in found] == files, found
    assert str(found[0]).startswith(f"{files[0]}:5:10: error[SW101]: `W` is not"), found[0]
    of_text = shardwise.check(UNKNOWN)[0]
    assert of_text.path is None and str(of_text).startswith("5:10: error[SW101]"), of_text

    assert shardwise.cost(path)["schema"].startswith("shardwise.cost/")
    module = shardwise.to_jax(plan)
    compile(module, "exported.py", "exec")
    assert "def device_step" in module

    assert resources.files("shardwise").joinpath("py.typed").is_file()
    assert metadata.version("shardwise")
    print("the package works")


if __name__ == "__main__":
    main(sys.argv[1])
