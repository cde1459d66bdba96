"""Templates filled in, and files sent by their hash: no request reaches the disk by a name of its own."""

from __future__ import annotations

import functools
import hashlib
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup
from starlette.requests import Request  # noqa: TC002  (read at run time, to call it as a route)
from starlette.responses import Response

from vademecum import __version__
from vademecum.errors import NotFound
from vademecum.interfaces.present import output
from vademecum.interfaces.web import markdown

_HERE = files("vademecum.interfaces.web")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}
_YEAR = "public, max-age=31536000, immutable"


async def send_static(request: Request, name: str) -> Response:
    """A file of ours; one that is asked for by its hash never changes."""
    found = _static().get(name)
    if found is None:
        raise NotFound(f"there is no file {name}")
    content, digest = found
    same = request.headers.get("if-none-match") == f'"{digest}"'
    known = request.query_params.get("v") == digest
    headers = {"etag": f'"{digest}"', "cache-control": _YEAR if known else "no-cache"}
    kind = _TYPES.get(name[name.rfind(".") :], "application/octet-stream")
    return Response(b"" if same else content, 304 if same else 200, headers, media_type=kind)


@functools.cache
def _static() -> dict[str, tuple[bytes, str]]:
    """Every file that is sent, by name, with its hash."""
    found = {}
    for each in (_HERE / "static").iterdir():
        if each.is_file():
            content = each.read_bytes()
            found[each.name] = content, hashlib.sha256(content).hexdigest()[:16]
    return found


def render_template(name: str, **given: Any) -> str:
    """A template, filled in; every text in it is escaped."""
    door = str(given.get("door") or "")
    return _templates().get_template(name).render(at=lambda path: door + path, **given)


@functools.cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("vademecum.interfaces.web", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=markdown.show,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(static=static, version=__version__)
    made.filters.update(
        markdown=markdown.render,
        plain=markdown.plain,
        spelled=markdown.spell,
        wiki=markdown.link_records,
        ago=output.ago,
    )
    return made


def static(name: str) -> Markup:
    """The address of a file of ours, by its hash."""
    return Markup("/static/{}?v={}").format(name, _static()[name][1])
