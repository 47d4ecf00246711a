"""Opens each page of the site in Chromium, without a network.

``sphinx-build -W docs docs/_build`` makes the site; ``GSWE_PYG_SITE`` names another
folder. Skipped where there is no site, no Chromium or no playwright.
"""

import os
import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("GSWE_PYG_SITE", ROOT / "docs" / "_build"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
]
PAGES = sorted(
    page for page in SITE.rglob("*.html") if "_modules" not in page.parts
)  # the listings of the source are many, and Sphinx's own

# Formulas are MathML; what looks like TeX outside of code was not converted.
READ = """() => {
  const page = document.querySelector("article") || document.body;
  const text = page.cloneNode(true);
  text.querySelectorAll("pre, code, math, script, style").forEach(e => e.remove());
  return {
    text: text.textContent,
    links: [...document.querySelectorAll("a[href]")].map(a => a.href),
    math: document.querySelectorAll("math").length,
    ids: [...document.querySelectorAll("[id]")].map(e => e.id),
  };
}"""
LOAD_IMAGES = """async () => {
  const missing = [];
  for (const image of document.images) {
    image.loading = "eager";
    try { await image.decode(); } catch (error) { missing.push(image.src); }
  }
  return missing;
}"""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site(browser):
    """What the browser finds on each page."""
    if not PAGES:
        pytest.skip(f"no site in {SITE.name}: run sphinx-build -W docs docs/_build")
    found = {}
    tab = browser.new_page()
    errors, outside = [], []
    tab.on("console", lambda m: m.type == "error" and errors.append(m.text))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("requestfailed", lambda request: errors.append(f"failed: {request.url}"))
    tab.on(
        "request",
        lambda r: r.url.startswith(("file:", "data:")) or outside.append(r.url),
    )
    for page in PAGES:
        errors.clear()
        outside.clear()
        tab.goto(page.as_uri())
        missing = tab.evaluate(LOAD_IMAGES)
        read = tab.evaluate(READ)
        lists = {"errors": list(errors), "outside": list(outside), "missing": missing}
        found[page.resolve()] = {**read, **lists}
    tab.close()
    return found


def by_page(site, find):
    """The pages with what was found on them, for a message that names them."""
    found = {str(page.relative_to(SITE.resolve())): find(site[page]) for page in site}
    return {name: what for name, what in found.items() if what}


def test_no_page_has_an_error_in_the_console(site):
    assert by_page(site, lambda page: page["errors"]) == {}


def test_no_page_asks_the_network(site):
    assert by_page(site, lambda page: page["outside"]) == {}


def test_no_image_is_missing(site):
    assert by_page(site, lambda page: page["missing"]) == {}


def test_no_formula_is_left_as_tex(site):
    tex = r"\\[a-zA-Z]{2,}|\$\$|\$[^$\n]*[\\^_][^$\n]*\$"
    assert by_page(site, lambda page: re.findall(tex, page["text"])) == {}


def test_formulas_are_drawn(site):
    assert sum(page["math"] > 0 for page in site.values()) > 3


def test_no_markup_is_left_as_text(site):
    markup = r":(?:class|meth|obj|func|math|ref):`|```|\]\([\w/.]+\)|^\s*\.\. \w+::"
    found = by_page(site, lambda p: re.findall(markup, p["text"], re.MULTILINE))
    assert found == {}


def test_links_lead_somewhere(site):
    def broken(page):
        wrong = []
        for link in page["links"]:
            url = urlparse(link)
            if url.scheme != "file":
                continue
            path = Path(unquote(url.path))
            target = site.get(path.resolve())
            if not path.exists() or (
                target and url.fragment and unquote(url.fragment) not in target["ids"]
            ):
                wrong.append(link.removeprefix(SITE.resolve().as_uri()))
        return sorted(set(wrong))

    assert by_page(site, broken) == {}
