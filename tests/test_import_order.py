"""The layers of docs/architecture.md: a module imports only layers above its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "densevid"

# Top first; a layer imports only layers in earlier rows (and itself). Layers on one row never import each other.
ROWS: list[set[str]] = [
    {"__init__"},
    {"errors", "legacy", "progress", "fast_forms"},
    {"io", "language"},
    {"device"},
    {"config"},
    {"events", "intervals", "tracks"},
    {"model", "video"},
    {"data"},
    {"timelines", "checkpoint"},
    {"import_released"},
    {"inference", "evaluation"},
    {"kernels"},
    {"training"},
    {"export"},
    {"pipeline"},
    {"app"},
    {"commands"},
    {"cli"},
    {"__main__"},
]
RANK = {layer: row for row, layers in enumerate(ROWS) for layer in layers}
BARE = {"model", "training", "inference"}
KERNELS_LOADED_BY = "fast_forms.py"
GPU_ONLY = {"event_triton.py", "word_triton.py", "head_triton.py", "head_passes_triton.py"}
ALLOWED_OUTSIDE = {"torch", "numpy", "safetensors"}


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[tuple[str, bool]]:
    """(module, at top level) for every import statement."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = set(map(id, tree.body))
    found: list[tuple[str, bool]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append((node.module or "", id(node) in top))
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_up_only(path: Path) -> None:
    layer = layer_of(path)
    assert layer in RANK, f"{layer} has no place in the order: add it to ROWS and to docs/architecture.md"
    if layer == "__init__":
        return  # it names the public functions of every layer, for type checkers alone: see tests/test_public_api.py
    for module, _ in imports_of(path):
        if module.startswith("densevid."):
            other = module.split(".")[1]
            assert other == layer or RANK[other] < RANK[layer], f"{path.name} ({layer}) imports {module}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_network_needs_torch_numpy_and_safetensors_alone(path: Path) -> None:
    if layer_of(path) not in BARE or path.name in GPU_ONLY:
        return  # kernels for a GPU are imported where there is one, and torch brings Triton along there
    import sys

    for module, top_level in imports_of(path):
        outside = module.split(".")[0]
        known = outside == "densevid" or outside in sys.stdlib_module_names or outside in ALLOWED_OUTSIDE
        assert known or not top_level, f"{path.name} imports {module}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_one_place_alone_loads_the_kernels(path: Path) -> None:
    """So that `kernels/` can be deleted; `tests/test_without_kernels.py` does."""
    if layer_of(path) != "kernels" and path.name != KERNELS_LOADED_BY:
        assert not [module for module, _ in imports_of(path) if module.startswith("densevid.kernels")]
        constants = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        assert "densevid.kernels" not in [node.value for node in constants]
