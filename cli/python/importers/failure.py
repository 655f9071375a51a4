"""What stops an import: what is wrong, where, and what to do."""

import os
from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class Source:
    """A line of the user's code."""

    path: str
    line: int

    def __str__(self) -> str:
        path = os.path.abspath(self.path)
        here = os.getcwd() + os.sep
        return f"{path.removeprefix(here)}:{self.line}"


class Failure(Exception):
    """A function that cannot be imported, or arguments that do not fit it."""

    def __init__(self, message: str, help_: str, source: Union[Source, None] = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help_
        self.source = source


class Unsupported(Failure):
    """An operation that the language does not have."""
