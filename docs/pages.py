"""Pages that are made from elsewhere: the API, the examples, the results."""

import ast
import importlib
import pkgutil
import shutil
from pathlib import Path
from types import ModuleType

#: Need a cluster, or more than a minute: shown, and not run.
NOT_RUN = ("embed_with_ray",)
#: Quick enough to be shown as they are; the others run with '--fast'.
IN_FULL = ("visualize_slices",)
#: For examples that draw nothing; the others have their own, or the default.
THUMBNAILS = {
    "distributed": "set_circles",
    "neighbourhood_aggregation": "same_mean",
    "replace_global_mean_pool": "same_mean",
    "set_circles_contrastive": "set_circles",
}
SPELLED = {"Gnn": "GNN", "mnist": "MNIST", "ray": "Ray", "Graphgym": "GraphGym"}


class Arguments:
    """What an example of the gallery is called with."""

    def __repr__(self) -> str:
        return "Arguments"

    def __call__(self, gallery_conf, script_vars) -> list[str]:
        stem = Path(script_vars["src_file"]).stem
        return [] if stem in IN_FULL else ["--fast"]


arguments = Arguments()


def copy_examples(source: Path, target: Path, header: Path) -> None:
    """The examples with titles, which the gallery wants and '--help' does not."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    shutil.copy(header, target / "GALLERY_HEADER.rst")
    for path in sorted(source.glob("*.py")):
        text = path.read_text()
        docstring = ast.get_docstring(ast.parse(text), clean=False) or ""
        words = path.stem.replace("_", " ").capitalize().split(" ")
        title = " ".join(SPELLED.get(word, word) for word in words)
        stem = path.stem
        options = "" if stem in IN_FULL else " --fast"
        ran = f"At the end of the page is what ``python examples/{path.name}{options}``"
        ran += " prints and draws."
        if stem in NOT_RUN:
            ran = f"The file is ``examples/{path.name}``. It was not run here."
        new = f"{title}\n{'=' * len(title)}\n\n{docstring.strip()}\n\n{ran}\n"
        text = text.replace(docstring, new, 1)
        if stem in THUMBNAILS:
            picture = f"images/{THUMBNAILS[stem]}.png"
            text += f"\n# sphinx_gallery_thumbnail_path = '{picture}'\n"
        (target / path.name).write_text(text)


def include_results(source: Path, target: Path) -> None:
    """A page of the site for each page of results."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in source.glob("*.md"):
        where = f"../../benchmarks/results/{path.name}"
        text = f"```{{include}} {where}\n:relative-images:\n```\n"
        (target / path.name).write_text(text)


def write_api(package: ModuleType, folder: Path) -> None:
    """A table for each module, with what no module before it has."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    seen: list[object] = []
    sections = [_section(package, "Readout, distances, losses", seen)]
    for module in pkgutil.iter_modules(package.__path__):
        name = f"{package.__name__}.{module.name}"
        if module.name.startswith("_"):
            continue
        try:
            found = importlib.import_module(name)
        except ImportError:  # of an extra that is not installed
            continue
        sections.append(_section(found, name, seen))
    title = "API\n===\n\n"
    (folder / "index.rst").write_text(title + "\n".join(filter(None, sections)))


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
    names = "".join(f"   {name}\n" for name in new)
    return (
        f"{title}\n{'-' * len(title)}\n\n.. currentmodule:: {module.__name__}\n\n"
        f".. autosummary::\n   :nosignatures:\n   :toctree: .\n\n{names}"
    )
