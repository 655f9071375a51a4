"""Runs a notebook in the Jupyter kernel of this Python, and compares what its cells show with what
is in the file.

    run_notebook.py NOTEBOOK.ipynb [--write]

With `--write` the file gets what they show. It needs `nbclient` and `ipykernel`.
"""

import sys

import nbformat
from nbclient import NotebookClient


def shown(cell):
    """The outputs of a cell: text and tables."""
    found = []
    for output in cell.get("outputs", []):
        data = output.get("data", {"text/plain": output.get("text", "")})
        found.append({kind: "".join(data[kind]) for kind in sorted(data)})
    return found


def main(path, *options):
    notebook = nbformat.read(path, as_version=4)
    expected = [shown(cell) for cell in notebook.cells]
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", coalesce_streams=True)
    client.execute()
    found = [shown(cell) for cell in notebook.cells]
    if "--write" in options:
        for cell in notebook.cells:
            # When a cell ran is no part of what it shows.
            cell.metadata.clear()
        notebook.metadata.pop("language_info", None)
        nbformat.write(notebook, path)
        return 0
    differing = [at for at, pair in enumerate(zip(expected, found)) if pair[0] != pair[1]]
    for at in differing:
        print(f"cell {at}:\n{found[at]}\nand not\n{expected[at]}")
    if not differing:
        print(f"{sum(map(bool, found))} cells show what they showed")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
