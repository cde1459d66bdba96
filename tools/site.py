"""Pages of the site that are not files of `docs/`: MkDocs loads this as a hook (`mkdocs.yml`).

The project's own files (the changelog, how to contribute, how to report a problem) and the examples become
pages, and the JSON schemas get a list, so that a link that works in the repository works in the site too.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "report.md"}
_CELL = re.compile(r"<t[dh][ >].*?</t[dh]>", re.DOTALL)
_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that come from elsewhere."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text("utf-8")))
    for example in sorted((ROOT / "examples").glob("*.py")):
        text = f"# {example.name}\n\n```python\n{example.read_text('utf-8')}```\n"
        files.append(File.generated(config, f"examples/{example.stem}.md", content=text))
    files.append(File.generated(config, "schemas/index.md", content=schema_list()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files outside of `docs/` at the pages made from them."""
    here = page.file.src_uri
    origin = next((name for name, made in PAGES.items() if made == here), f"docs/{here}")

    def pointed(found: re.Match[str]) -> str:
        wanted = page_of(posixpath.normpath(posixpath.join(posixpath.dirname(origin), found[2])))
        if wanted is None:
            return found[0]
        return f"{found[1]}{posixpath.relpath(wanted, posixpath.dirname(here) or '.')}{found[3]}"

    return _LINK.sub(pointed, markdown)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    r"""Show `a\|b` in a cell of a table as GitHub does, without the backslash it needs there."""
    return _CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html)


def page_of(path: str) -> str | None:
    """The page of the site for a path of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path == "README.md":
        return "index.md"
    if path == "docs/schemas":
        return "schemas/index.md"
    if path.startswith("examples/") and path.endswith(".py"):
        return f"{path.removesuffix('.py')}.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def schema_list() -> str:
    """A page that names every JSON schema and says what it describes."""
    rows = []
    for path in sorted((ROOT / "docs" / "schemas").glob("*.json")):
        schema = json.loads(path.read_text("utf-8"))
        rows.append(f"| [{path.stem}]({path.name}) | {schema.get('title', '')} |")
    head = "# JSON schemas\n\nWhat commands print with `--json` ([how it is meant](../cli.md#json)).\n\n"
    return head + "\n".join(["| schema | what it describes |", "|---|---|", *rows]) + "\n"
