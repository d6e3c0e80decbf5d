"""Which tests depend on a browser, a server, another process or a clock, read from their source.

`conftest.py` gives these the marker `timing`; `make test-repeat` runs each of them many times.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
MODULES = {"asyncio", "concurrent", "multiprocessing", "signal", "socket", "subprocess", "threading", "time"}


@cache
def timing_names(path: Path) -> frozenset[str]:
    """Names of a module's imports, functions, fixtures and tests that depend on one of `MODULES`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {name for node in ast.walk(tree) for name in _imported(node)}
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    definitions = {node.name: _used(node) for node in tree.body if isinstance(node, kinds)}
    while more := {name for name, used in definitions.items() if name not in found and used & found}:
        found |= more
    return frozenset(found)


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {one.asname or one.name for one in node.names if one.name.partition(".")[0] in MODULES}
    if not isinstance(node, ast.ImportFrom):
        return set()
    module = node.module or ""
    helper = TESTS / f"{module.replace('.', '/')}.py"
    from_helper = timing_names(helper) if module.startswith("helpers.") else frozenset()
    whole = module.partition(".")[0] in MODULES
    return {one.asname or one.name for one in node.names if whole or one.name in MODULES | from_helper}


def _used(node: ast.AST) -> set[str]:
    """Names and arguments (a test names its fixtures as arguments)."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
