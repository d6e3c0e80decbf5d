"""A registry of faster forms of what `model/` and `inference/` compute; the one place that loads `densevid.kernels`.

A module that has something worth speeding up offers a `FastForm` beside its plain form. `densevid.kernels` registers
its forms when it is imported, which this module alone does, the first time that one is looked up. Without that
folder every look-up finds nothing, and the plain forms compute the same numbers, slower.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Generic, TypeVar

KERNELS = "densevid.kernels"
Form = TypeVar("Form")


class FastForm(Generic[Form]):
    """A place for a faster form of one function or class; the type is the signature of both forms."""

    def __init__(self) -> None:
        self._registered: Form | None = None

    def register(self, form: Form) -> None:
        """Use `form` from now on."""
        self._registered = form

    def find(self) -> Form | None:
        """The registered form, or None: then the plain form is to be used."""
        _load_kernels()
        return self._registered


@cache
def _load_kernels() -> None:
    try:
        importlib.import_module(KERNELS)
    except ModuleNotFoundError as error:
        if error.name != KERNELS:
            raise
