"""Render templates, and send static files by their hash.

A request names a file in a table that was read once; a path in a request never reaches the disk.
"""

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
from vademecum.interfaces.web import labels, markdown

_PACKAGE = "vademecum.interfaces.web"
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


class Pages:
    """The templates and static files of a site: those of its own packages first, then the shared ones."""

    def __init__(self, *packages: str) -> None:
        self._packages = (*packages, _PACKAGE)

    async def send_static(self, request: Request) -> Response:
        """Send the static file with the route's `name`; a request with its hash may cache it for a year."""
        name = request.path_params["name"]
        found = self._static_files.get(name)
        if found is None:
            raise NotFound(f"there is no file {name}")
        content, digest = found
        same = request.headers.get("if-none-match") == f'"{digest}"'
        known = request.query_params.get("v") == digest
        headers = {"etag": f'"{digest}"', "cache-control": _YEAR if known else "no-cache"}
        kind = _TYPES.get(name[name.rfind(".") :], "application/octet-stream")
        return Response(b"" if same else content, 304 if same else 200, headers, media_type=kind)

    def render(self, name: str, **values: Any) -> str:
        """Render a template; texts are escaped, unless they are markup."""
        door = str(values.get("door") or "")
        return self._templates.get_template(name).render(at=lambda path: door + path, **values)

    @functools.cached_property
    def _static_files(self) -> dict[str, tuple[bytes, str]]:
        """Every static file by name, with its content and hash."""
        found = {}
        for package in reversed(self._packages):
            for file in (files(package) / "static").iterdir():
                if file.is_file():
                    content = file.read_bytes()
                    found[file.name] = content, hashlib.sha256(content).hexdigest()[:16]
        return found

    @functools.cached_property
    def _templates(self) -> jinja2.Environment:
        environment = jinja2.Environment(
            loader=jinja2.ChoiceLoader([jinja2.PackageLoader(each, "templates") for each in self._packages]),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            finalize=markdown.show,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.globals.update(static=self._address_of, version=__version__)
        environment.filters.update(
            markdown=markdown.render,
            plain=markdown.plain,
            spelled=markdown.spell,
            wiki=markdown.link_records,
            ago=output.ago,
            scope_label=functools.partial(labels.of, "scope"),
            type_label=functools.partial(labels.of, "type"),
        )
        return environment

    def _address_of(self, name: str) -> Markup:
        """Return the address of a static file, with its hash."""
        return Markup("/static/{}?v={}").format(name, self._static_files[name][1])


_own = Pages()
render_template, send_static = _own.render, _own.send_static
