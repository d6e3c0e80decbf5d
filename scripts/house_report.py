"""Measure how the library is laid out, and keep the table in docs/architecture.md true.

    python scripts/house_report.py                                print the table of this checkout
    python scripts/house_report.py --before OTHER_CHECKOUT        beside the figures of another tree
    python scripts/house_report.py --write docs/architecture.md   put the table into a page (`make report`)
    python scripts/house_report.py --check docs/architecture.md   exit code 1 where the page holds other figures

Only src/densevid is measured. Without `--before`, `--write` and `--check` take the old tree's column from the page.
The source is parsed and never imported, so this needs the standard library alone.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median

PACKAGE = "densevid"
BEGIN, END = "<!-- house report: begin -->", "<!-- house report: end -->"
FUNCTION_LIMIT = 50
OLD_NAMES_LIVE_IN = "legacy.py"  # the one module that maps names of 0.1
SYNONYMS_LIVE_IN = "timelines/sentences.py"  # quoted English words are data there
WORD_LISTS_LIVE_IN = "language"  # and whole lists of them here
MODELS_LIVE_IN = "pretrained"  # with the words that they know
WORD_FILES = {".py", ".toml", ".js", ".html", ".css"}
OLD_WORDS = re.compile(
    r"(?<!\w)(?:told|tells?(?!\(\))|telling|teller|said|says?|saying|speaks?|speaking|spoken|speaker|stir\w*|happening|happens?"
    r"|quiet\w*|sought|glance\w*|storyteller|story|stories|likeness|disguis\w*|sittings?|lessons?|judg\w*|rooms?"
    r"|short.list|foretell|dealt|wishes|manner|surroundings|usual\w*|learnt|seen_inside|expected.words?|asked|asks)"
    r"(?!\w)",
    re.IGNORECASE,
)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Graph = dict[str, set[str]]


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, its lines and its syntax tree."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed source."""
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        """Number of lines."""
        return self.text.count("\n")


@dataclass
class Report:
    """What the table shows of one tree, with the names behind each figure."""

    source: Path
    modules: dict[str, Module] = field(default_factory=dict)

    @classmethod
    def of(cls, checkout: Path) -> Report:
        """Read every module of `checkout`/src/densevid."""
        source = checkout / "src" / PACKAGE
        if not source.is_dir():
            raise SystemExit(f"{checkout}: no src/{PACKAGE} in it; give the root of a checkout")
        report = cls(source)
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            report.modules[name] = Module(name, path, path.read_text(encoding="utf-8"))
        return report

    @cached_property
    def imports(self) -> Graph:
        """Module -> modules of the package that it imports, inside functions too, but not for type checkers only."""
        return {name: self._imported_by(module) for name, module in self.modules.items()}

    def _imported_by(self, module: Module) -> set[str]:
        skipped = {id(node) for block in ast.walk(module.tree) if _is_type_checking(block) for node in ast.walk(block)}
        names: set[str] = set()
        for node in ast.walk(module.tree):
            if id(node) in skipped:
                continue
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                children = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= {child if child in self.modules else node.module for child in children}
        return (names & self.modules.keys()) - {module.name}

    @cached_property
    def folders(self) -> Counter[str]:
        """Folder -> modules directly in it."""
        source = self.source
        return Counter(m.path.parent.relative_to(source.parent).as_posix() for m in self.modules.values())

    @cached_property
    def cycles(self) -> list[list[str]]:
        """Groups of modules that import each other, directly or not."""
        return [sorted(group) for group in _strongly_connected(self.imports) if len(group) > 1]

    @cached_property
    def longest_chain(self) -> list[str]:
        """The longest chain of imports; a cycle counts as one link."""
        groups = _strongly_connected(self.imports)  # what a group imports comes before it
        group_of = {name: index for index, group in enumerate(groups) for name in group}
        chains: list[list[str]] = []
        for index, group in enumerate(groups):
            below = {group_of[other] for name in group for other in self.imports[name]} - {index}
            chains.append([min(group), *max((chains[other] for other in below), key=len, default=[])])
        return max(chains, key=len)

    @cached_property
    def single_importers(self) -> dict[str, str]:
        """Module -> the only module that imports it; packages and entry points aside."""
        importers: defaultdict[str, set[str]] = defaultdict(set)
        for name, others in self.imports.items():
            for other in others:
                importers[other].add(name)
        plain = {name for name, module in self.modules.items() if not module.path.stem.startswith("__")}
        return {name: min(importers[name]) for name in sorted(plain) if len(importers[name]) == 1}

    @cached_property
    def undocumented(self) -> list[str]:
        """Public modules, classes, functions and methods without a docstring or with a parameter without a type."""
        return [name for module in self.modules.values() for name in _undocumented(module)]

    @cached_property
    def old_words(self) -> list[str]:
        """`file:line: word` for every word of the old language."""
        files = [p for p in sorted(self.source.rglob("*")) if p.suffix in WORD_FILES and p.name != OLD_NAMES_LIVE_IN]
        return [
            f"{path.relative_to(self.source)}:{number}: {found[0]}"
            for path in files
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            for found in OLD_WORDS.finditer(line)
            if not self._is_data(path, line, found[0])
        ]

    def _is_data(self, path: Path, line: str, word: str) -> bool:
        """Whether a word is English that the library is about, not a name or a sentence of ours."""
        if self.source / MODELS_LIVE_IN in path.parents:
            return True
        if path.parent == self.source / WORD_LISTS_LIVE_IN:
            return '"' in line and '"""' not in line
        return path == self.source / SYNONYMS_LIVE_IN and f'"{word}"' in line

    @cached_property
    def long_functions(self) -> list[str]:
        """Functions over `FUNCTION_LIMIT` lines, from `def` to their last line."""
        return [
            f"{module.name}.{node.name}"
            for module in self.modules.values()
            for node in ast.walk(module.tree)
            if isinstance(node, Function) and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LIMIT
        ]

    def rows(self) -> dict[str, str]:
        """The rows of the table: what is measured -> the figure."""
        largest = max(self.modules.values(), key=lambda module: module.lines)
        folder, files = max(self.folders.items(), key=lambda item: item[1])
        return {
            "modules": f"{len(self.modules)}",
            "median module, lines": f"{median(module.lines for module in self.modules.values()):.0f}",
            "largest module, lines": f"{largest.lines} (`{largest.path.relative_to(self.source).as_posix()}`)",
            "largest folder, modules": f"{files} (`{folder.removeprefix(PACKAGE + '/')}/`)",
            "longest chain of imports": f"{len(self.longest_chain)}",
            "import cycles, also inside functions": f"{len(self.cycles)}",
            "public names without a type or a docstring": f"{len(self.undocumented)}",
            "modules that only one other imports": f"{len(self.single_importers)}",
            f"functions over {FUNCTION_LIMIT} lines": f"{len(self.long_functions)}",
            "words of the old language": f"{len(self.old_words)}",
        }


AIMS = {
    "modules": "about 185",
    "median module, lines": "150 to 250",
    "largest module, lines": "at most 400",
    "largest folder, modules": "at most 20",
    "import cycles, also inside functions": "0",
    "public names without a type or a docstring": "0",
    f"functions over {FUNCTION_LIMIT} lines": "0",
    "words of the old language": "0",
}


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _strongly_connected(graph: Graph) -> list[set[str]]:
    """Tarjan's algorithm; a group comes after every group that it leads to."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[set[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == order[name]:
            start = stack.index(name)
            groups.append(set(stack[start:]))
            del stack[start:]

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return groups


def _undocumented(module: Module) -> Iterator[str]:
    if not ast.get_docstring(module.tree):
        yield module.name
    kernels = _kernel_decorators(module.tree)
    for node in _public(module.tree.body):
        if kernels & {ast.unparse(decorator) for decorator in node.decorator_list}:
            continue
        yield from _incomplete(f"{module.name}.{node.name}", node)
        if isinstance(node, ast.ClassDef):
            for method in _public(node.body):
                yield from _incomplete(f"{module.name}.{node.name}.{method.name}", method)


def _public(body: Sequence[ast.stmt]) -> list[Function | ast.ClassDef]:
    definitions = [node for node in body if isinstance(node, Function | ast.ClassDef)]
    return [node for node in definitions if not node.name.startswith("_")]


def _kernel_decorators(tree: ast.Module) -> set[str]:
    """What marks a function for Triton, whose language has no Python types: triton.jit, and names made from it."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and "triton.jit" in ast.unparse(node.value)]
    return {"triton.jit", *(ast.unparse(target) for node in assigned for target in node.targets)}


def _incomplete(name: str, node: Function | ast.ClassDef) -> Iterator[str]:
    typed = True
    if isinstance(node, Function):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments += [argument for argument in (node.args.vararg, node.args.kwarg) if argument]
        named = [argument for argument in arguments if argument.arg not in ("self", "cls")]
        typed = node.returns is not None and all(argument.annotation for argument in named)
    if not typed or not ast.get_docstring(node):
        yield name


def table(now: dict[str, str], before: dict[str, str]) -> str:
    """The figures as a Markdown table; the column of the old tree is left out where there are none of it."""
    head = ["", *(["0.1"] if before else []), "now", "aim"]
    lines = [head, ["---"] * len(head)]
    for name, figure in now.items():
        lines.append([name, *([before.get(name, "")] if before else []), figure, AIMS.get(name, "")])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def before_of(page: str) -> dict[str, str]:
    """The column of the old tree in the table of a page, or nothing where it has none."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in _block(page).splitlines() if line]
    return {row[0]: row[1] for row in rows[2:]} if rows and len(rows[0]) == 4 else {}


def _block(page: str) -> str:
    if BEGIN not in page or END not in page:
        raise SystemExit(f"the page needs the lines {BEGIN} and {END} around the table")
    return page.partition(BEGIN)[2].partition(END)[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print, write or check the table. Returns 1 where a checked page differs, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help="the checkout to measure")
    parser.add_argument("--before", type=Path, help="the checkout to compare with")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    parser.add_argument("--check", type=Path, metavar="PAGE", help="compare the table with the one in this page")
    parser.add_argument("--details", action="store_true", help="also list the names behind the figures")
    parsed = parser.parse_args(arguments)
    report = Report.of(parsed.tree)
    page = parsed.write or parsed.check
    text = page.read_text(encoding="utf-8") if page else ""
    before = Report.of(parsed.before).rows() if parsed.before else before_of(text) if page else {}
    shown = table(report.rows(), before)
    if parsed.write:
        head, _, rest = text.partition(BEGIN)
        parsed.write.write_text(f"{head}{BEGIN}\n{shown}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    elif parsed.check:
        if _block(text).strip() != shown:
            print(f"{parsed.check}: the table is out of date; run `make report`\n{shown}", file=sys.stderr)
            return 1
    else:
        print(shown)
    if parsed.details:
        _print_details(report)
    return 0


def _print_details(report: Report) -> None:
    print("\nlongest chain: " + " > ".join(report.longest_chain))
    for group in report.cycles:
        print("cycle: " + ", ".join(group))
    for title, names in {"undocumented": report.undocumented, "long function": report.long_functions}.items():
        print("\n".join(f"{title}: {name}" for name in names) or f"{title}: none")
    for name, importer in report.single_importers.items():
        print(f"only importer: {name} < {importer}")
    print("\n".join(report.old_words))


if __name__ == "__main__":
    raise SystemExit(main())
