"""The layout of the source: packages of a readable size, one meaning for every class name."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "runtime" / "seq2edge", ROOT / "graphs" / "seq2edge_graphs", ROOT / "export" / "seq2edge_export"]
MODULES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
MOST_MODULES = 14
FEWEST_LINES = 25
LONGEST_FUNCTION = 55


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_folder_has_too_many_modules() -> None:
    counts = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert {relative(folder): count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_no_class_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(relative(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_module_is_a_fragment() -> None:
    modules = [path for path in MODULES if path.name not in ("__init__.py", "__main__.py")]
    lines = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    assert {path: count for path, count in lines.items() if count < FEWEST_LINES} == {}


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_says_what_it_does_and_keeps_its_functions_short(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstring = ast.get_docstring(tree)
    assert docstring, "a module docstring is missing"
    assert "; needs " not in docstring
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}
