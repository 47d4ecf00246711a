"""Sphinx: ``sphinx-build -W docs docs/_build``."""

import ast
import importlib
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))  # the checkout, whatever is installed
gswe_pyg = importlib.import_module("gswe_pyg")

project = "gswe-pyg"
author = copyright = "The gswe-pyg authors"
version = release = gswe_pyg.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "_generated"]
html_theme = "furo"
html_title = f"gswe-pyg {version}"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
# Pages that are included from elsewhere link to what is beside them there. That all
# links of all pages lead somewhere is a test.
suppress_warnings = ["myst.xref_missing"]

# Docstrings have the types in their arguments' descriptions, as PyG's do.
autodoc_typehints = "none"
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
# scikit-learn adds these, with references to its own pages.
autodoc_default_options = {"exclude-members": "set_fit_request, set_transform_request"}
napoleon_custom_sections = ["Shapes"]
napoleon_use_ivar = True

GENERATED = HERE / "_generated"


def write_examples() -> None:
    """A row for each script: its name, and the first sentence of its docstring."""
    lines = ["| script | |", "|---|---|"]
    for path in sorted((ROOT / "examples").glob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        sentence = " ".join(docstring.split("\n\n")[0].split())
        lines.append(f"| `{path.name}` | {sentence} |")
    (GENERATED / "examples.md").write_text("\n".join(lines) + "\n")


def write_api() -> None:
    """A section for each module, with what no section before it has."""
    seen: list[object] = []
    sections = [_section(gswe_pyg, "Readout, distances, losses", seen)]
    for module in pkgutil.iter_modules(gswe_pyg.__path__):
        name = f"gswe_pyg.{module.name}"
        if module.name.startswith("_"):
            continue
        try:
            found = importlib.import_module(name)
        except ImportError:  # of an extra that is not installed
            continue
        sections.append(_section(found, name, seen))
    (GENERATED / "api.md").write_text("\n".join(filter(None, sections)))


def _section(module: ModuleType, title: str, seen: list[object]) -> str:
    public = getattr(module, "__all__", None) or [
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
    ]
    new = [
        name
        for name in public
        if name != "__version__" and not any(getattr(module, name) is x for x in seen)
    ]
    seen += [getattr(module, name) for name in new]
    if not new:
        return ""
    return (
        f"## {title}\n\n```{{eval-rst}}\n.. automodule:: {module.__name__}\n"
        f"   :members: {', '.join(new)}\n```\n"
    )


def point_inside(app, docname: str, source: list[str]) -> None:
    """Links that leave docs/ are for readers of the repository: name the file."""
    text = source[0].replace("](../benchmarks/README.md", "](benchmarks.md")
    source[0] = re.sub(r"(?<!!)\[([^\]]+)\]\(\.\./([^)]+)\)", r"\1 (`\2`)", text)


def setup(app) -> None:
    app.connect("source-read", point_inside)


GENERATED.mkdir(exist_ok=True)
write_examples()
write_api()
