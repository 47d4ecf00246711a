"""Formulas as MathML, which browsers draw by themselves: no script, no network."""

from docutils.utils.math import latex2mathml
from sphinx.errors import ExtensionError

#: Words that the converter of docutils lacks, in words that it has.
REPLACED = {r"\tfrac": r"\frac", r"\dots": r"\ldots"}


def convert(tex: str, as_block: bool) -> str:
    for word, known in REPLACED.items():
        tex = tex.replace(word, known)
    try:
        return latex2mathml.tex2mathml(tex, as_block=as_block)
    except Exception as error:
        raise ExtensionError(f"cannot draw the formula {tex!r}: {error}") from error


def visit_inline(translator, node) -> None:
    translator.body.append(convert(node.astext(), as_block=False))
    skip(node)


def visit_block(translator, node) -> None:
    translator.body.append(convert(node.astext(), as_block=True))
    skip(node)


def skip(node) -> None:
    from docutils.nodes import SkipNode

    raise SkipNode


def setup(app) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
