"""Which tests depend on a browser, a server, another process or a clock, read from their source.

`conftest.py` gives these the marker `timing`; `make test-repeat` runs each of them many times. A test starts processes
by a module of Python or torch, or by what densevid is told: features are extracted, and batches loaded, by workers.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
OF_PYTHON = "asyncio concurrent http multiprocessing pty signal socket socketserver subprocess threading time"
MODULES = {*OF_PYTHON.split(), "torch.distributed", "torch.multiprocessing"}
WORKERS = {"'extract'", "'--parallel'", "'--workers'", "extract_all", "extract_many", "num_workers=", "workers="}


def is_timing_test(test: pytest.Function) -> bool:
    """Whether a test is marked so, uses the browser, or is found from its source."""
    marked = test.get_closest_marker("timing") is not None
    return marked or "browser" in test.fixturenames or test.originalname in timing_names(test.path)


@cache
def timing_names(path: Path) -> frozenset[str]:
    """Names of a module's imports, functions, fixtures and tests that depend on one of `MODULES` or on `WORKERS`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = WORKERS | {name for node in ast.walk(tree) for name in _imported(node)}
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    definitions = {node.name: _used(node) for node in tree.body if isinstance(node, kinds)}
    while more := {name for name, used in definitions.items() if name not in found and used & found}:
        found |= more
    return frozenset(found)


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {one.asname or one.name.partition(".")[0] for one in node.names if _is_found(one.name)}
    if not isinstance(node, ast.ImportFrom):
        return set()
    module = node.module or ""
    helper = TESTS / f"{module.replace('.', '/')}.py"
    from_helper = timing_names(helper) if module.startswith("helpers.") else frozenset()
    found = {one for one in node.names if one.name in from_helper or _is_found(f"{module}.{one.name}")}
    return {one.asname or one.name for one in found}


def _is_found(name: str) -> bool:
    """Whether a dotted name is one of `MODULES` or within it."""
    parts = name.split(".")
    return any(".".join(parts[:count]) in MODULES for count in range(1, len(parts) + 1))


def _used(node: ast.AST) -> set[str]:
    """Names and arguments (a test names its fixtures as arguments), keywords as `name=` and words as `'word'`."""
    found = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name):
                found.add(name)
            case ast.Attribute(attr=name):
                found |= {name} & WORKERS
            case ast.arg(arg=name):
                found |= {name, f"{name}="}
            case ast.keyword(arg=name):
                found.add(f"{name}=")
            case ast.Constant(value=str(word)):
                found.add(repr(word))
    return found
