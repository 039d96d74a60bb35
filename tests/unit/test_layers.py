"""Imports go downwards only, and every module says what it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kinetree

ROOT = Path(kinetree.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
NAMES = {".".join(p.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): p for p in MODULES}
FRONT = ("__init__", "__main__")  # the front door may import everything

#: Lowest first. Packages of one row do not know each other. The front door and its version belong to no layer.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("concurrency", "errors", "interrupts"),
    ("spatial",),
    ("language",),
    ("kernels",),
    ("algorithms",),
    ("compiler",),
    ("runtime",),
    ("tasks", "operators"),
    ("model",),
    ("identification", "interop", "control", "ocp", "simulation", "zoo"),
    ("bridges",),
    ("jax", "torch"),
    ("geometry",),
    ("io",),
    ("viewer",),
    ("cli",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

#: An algorithm is a text in the tree language: it sees the algebra and the waist, not who runs it. So is a kernel.
ONLY = {
    "algorithms": {"algorithms", "kernels", "language", "spatial"},
    "kernels": {"errors", "kernels", "language", "spatial"},
}


def identify(path: Path) -> str:
    return path.relative_to(ROOT.parent).as_posix()


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_layers(tree: ast.AST) -> list[tuple[str, int]]:
    """Layers of Kinetree that a module imports anywhere, also inside functions or for types only, with the line."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            if node.module == "kinetree":
                names = [f"kinetree.{alias.name}" for alias in node.names]
        else:
            continue
        paths = [name.split(".") for name in names]
        found += [([*path, "the front door"][1], node.lineno) for path in paths if path[0] == "kinetree"]
    return found


@pytest.mark.parametrize("path", [p for p in MODULES if layer_of(p) not in FRONT], ids=identify)
def test_imports_go_downwards(path: Path) -> None:
    layer = layer_of(path)
    assert layer in RANK, f"{identify(path)}: say in LAYERS where {layer!r} belongs"
    for imported, line in imported_layers(ast.parse(path.read_text(encoding="utf-8"))):
        where = f"{identify(path)}:{line}: {layer} imports {imported}"
        if layer == "cli" and imported not in RANK:
            continue  # the command line is a user like any other
        assert imported in RANK, where
        assert imported == layer or RANK[imported] < RANK[layer], f"{where}, which is not below it"
        assert layer not in ONLY or imported in ONLY[layer], where


def test_every_layer_exists() -> None:
    assert set(RANK) == {layer_of(path) for path in MODULES} - set(FRONT)


def imported_modules(path: Path) -> set[str]:
    """Modules of Kinetree that a module imports anywhere, also inside functions or for types only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in NAMES else node.module or "" for name in names}
    return {name for name in found if name in NAMES}


def test_no_module_imports_itself_in_the_end() -> None:
    """The import graph has no cycles, with imports for types only and those inside functions."""
    imports = {name: imported_modules(path) for name, path in NAMES.items()}
    # the front door imports everything, and nothing but the command line, a user like any other, imports it
    imports["kinetree"] = set()
    while leaves := {name for name, needs in imports.items() if not needs}:
        imports = {name: needs - leaves for name, needs in imports.items() if name not in leaves}
    # what is left are cycles and what leads to them; those that nothing needs only lead there
    while tops := set(imports) - {name for needs in imports.values() for name in needs}:
        imports = {name: needs for name, needs in imports.items() if name not in tops}
    assert not imports


def test_what_makes_code_does_not_know_what_runs_it() -> None:
    for name, path in NAMES.items():
        if name.startswith(("kinetree.compiler.llvm", "kinetree.compiler.c99")):
            assert not [module for module in imported_modules(path) if module.startswith("kinetree.runtime")]


@pytest.mark.parametrize("path", sorted((ROOT / "algorithms").rglob("*.py")), ids=identify)
def test_algorithms_do_not_branch_on_what_a_node_is(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            read = [
                n.value.id
                for n in ast.walk(node.test)
                if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
            ]
            assert not {"k", "parent"} & set(read), f"{identify(path)}:{node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=identify)
def test_every_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), f"{identify(path)} does not say what it is"


def test_relative_imports_are_not_used() -> None:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{identify(path)}:{node.lineno}"
