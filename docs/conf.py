"""Sphinx: ``sphinx-build -W docs docs/_build``."""

import importlib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]  # the checkout, whatever is installed
gswe_pyg = importlib.import_module("gswe_pyg")

import inventories  # noqa: E402
import pages  # noqa: E402

project = "gswe-pyg"
author = copyright = "The gswe-pyg authors"
version = release = gswe_pyg.__version__

extensions = [
    "mathml",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "_generated",
    "gallery/*.ipynb",
    "gallery_header.rst",
    "jupyter_execute",
]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"gswe-pyg {version}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["pictures.css"]

myst_enable_extensions = ["attrs_inline", "dollarmath"]
myst_heading_anchors = 4
# Pages that are included from elsewhere link to what is beside them there. That all
# links of all pages lead somewhere is a test.
suppress_warnings = ["myst.xref_missing"]
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_generated" / "jupyter_cache")
nb_execution_raise_on_error = True
nb_execution_timeout = 300

# Docstrings have the types in their arguments' descriptions, as PyG's do.
autodoc_typehints = "none"
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
# scikit-learn adds these, with references to its own pages.
autodoc_default_options = {"exclude-members": "set_fit_request, set_transform_request"}
napoleon_custom_sections = ["Shapes"]
napoleon_use_ivar = True

sphinx_gallery_conf = {
    "examples_dirs": "_generated/examples",
    "gallery_dirs": "gallery",
    "filename_pattern": rf"/(?!{'|'.join(pages.NOT_RUN)})\w+\.py",
    "reset_argv": "pages.arguments",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "default_thumb_file": str(HERE / "images" / "idea.png"),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "min_reported_time": 3600,
    "write_computation_times": False,
}


def point_inside(app, docname: str, source: list[str]) -> None:
    """Links that leave docs/ lead to the page of the site, or name the file; pictures
    get their dark twins."""
    up = "../" * docname.count("/")
    text = source[0]
    for outside, inside in (
        (r"\.\./benchmarks/README\.md", "benchmarks.md"),
        (r"\.\./benchmarks/results/(\w+)\.md", r"results/\1.md"),
        (r"\.\./examples/(\w+)\.py", r"gallery/\1.rst"),
    ):
        text = re.sub(rf"\]\({up}{outside}", rf"]({up}{inside}", text)
    leaves = rf"(?<!!)\[([^\]]+)\]\({up}\.\./([^)]+)\)"
    text = re.sub(leaves, r"\1 (`\2`)", text)
    source[0] = re.sub(r"(!\[[^\]]*\]\(images/(\w+))\.png\)", add_dark, text)


def add_dark(picture: re.Match) -> str:
    """The picture, and beside it the one for the dark theme, if there is one."""
    start, name = picture.groups()
    if not (HERE / "images" / f"{name}-dark.png").exists():
        return picture.group()
    return f"{start}.png){{.only-light}} {start}-dark.png){{.only-dark}}"


def setup(app) -> None:
    app.connect("source-read", point_inside)


GENERATED = HERE / "_generated"
GENERATED.mkdir(exist_ok=True)
intersphinx_mapping = inventories.write(GENERATED)
pages.copy_examples(
    ROOT / "examples", GENERATED / "examples", HERE / "gallery_header.rst"
)
pages.write_api(gswe_pyg, HERE / "api")
pages.include_results(ROOT / "benchmarks" / "results", HERE / "results")
