"""Pages of the documentation from outside of docs/, for mkdocs: made from the code, or files of the root.

Links to other files of the repository lead to a copy of them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from made import LIBRARY, ROOT, made, with_keys
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT_PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
}
"""Files of the root and the pages that show them."""
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@event_priority(100)  # before mkdocstrings looks for the tree
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lay the documented rooms out under their import root, and list the pages for contributors."""
    tree = ROOT / "build" / "docs-source" / "interlock"
    tree.mkdir(parents=True, exist_ok=True)
    for room in ("engine", "rules"):  # all that is there is read, also what no page is about
        link = tree / room
        if not link.is_symlink():
            link.symlink_to(ROOT / room, target_is_directory=True)
    config.nav.append({"Working on it": [*_for_contributors()]})
    return config


def _for_contributors() -> Iterator[object]:
    """The root's pages and folders of docs/ for those who work on Interlock, as entries of `nav`."""
    yield from (
        page for name, page in ROOT_PAGES.items() if (ROOT / name).exists() and page != "index.md"
    )
    for title, folder in (("Specification", "spec"), ("Decisions", "adr")):
        if names := sorted(path.name for path in (ROOT / "docs" / folder).glob("*.md")):
            yield {title: [f"{folder}/{name}" for name in names]}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and the files of the repository that pages link to."""
    for path, text in made():
        files.append(File.generated(config, path, content=text))
    for name, path in ROOT_PAGES.items():
        if files.get_file_from_path(path) is None and (ROOT / name).exists():
            text = (ROOT / name).read_text(encoding="utf-8")
            files.append(File.generated(config, path, content=text))
    for page in list(files.documentation_pages()):
        for path in _linked(page.src_uri, page.content_string):
            if files.get_file_from_path(_site_path(path)) is None and (ROOT / path).is_file():
                copy = File.generated(config, _site_path(path), abs_src_path=str(ROOT / path))
                files.append(copy)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the repository into links to their pages or copies."""

    def here(link: re.Match[str]) -> str:
        path = _repository_path(page.file.src_uri, link[1])
        start = posixpath.dirname(page.file.src_uri)
        return f"]({posixpath.relpath(_site_path(path), start or '.')}{link[2] or ''})"

    return _LINK.sub(here, with_keys(markdown))


def _linked(page: str, text: str) -> Iterator[str]:
    """The files outside of docs/ that a page links to, by their paths in the repository."""
    for link in _LINK.finditer(_FENCE.sub("", text)):
        path = _repository_path(page, link[1])
        if not path.startswith("docs/"):
            yield path


def _repository_path(page: str, target: str) -> str:
    """The path in the repository that a link of `page` means."""
    sources = {path: name for name, path in ROOT_PAGES.items() if name != "README.md"}
    source = sources.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def _site_path(path: str) -> str:
    """The path in the documentation of a file or folder of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path == "rules/library" or path.startswith("rules/library/"):
        return LIBRARY
    return path if path.startswith("screenshots/") else f"source/{path}"
