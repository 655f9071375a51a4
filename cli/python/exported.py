"""What the scripts that run exported modules share."""

import importlib.util
import json

import numpy as np


def load(path):
    """The module that was exported from the plan of a case."""
    spec = importlib.util.spec_from_file_location("exported", path.removesuffix(".json") + ".py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path):
    with open(path) as file:
        return json.load(file)


def copies(given, name):
    """A value, or those of all layers side by side."""
    if name in given:
        return np.array(given[name], float)
    layers = [given[f"{name}@{n}"] for n in range(len(given)) if f"{name}@{n}" in given]
    return np.array(layers, float)
