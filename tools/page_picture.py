"""Take the picture of the web page: `python -m tools.page_picture` writes `docs/pictures/page.png`.

A real `vade serve` over a small memory, looked at with the system's Chromium.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pexpect
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Mapping

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "page.png"
SIZE = {"width": 1200, "height": 720}
HANG = 60  # seconds after which something is stuck, on however slow a machine
MEMORIES = [
    "Deploys run on Tuesdays, after the standup --key deploys --tag ops",
    "Ann owns billing; ask her before touching invoices --key billing --tag people",
    "The API is versioned in the path: /v1, /v2 --key api-versioning --tag api",
    "Use pytest with xdist, never unittest --key testing --type feedback",
    "Answer in short sentences --key style --type feedback --scope global",
    "--type solution --error 'port 5432 is in use' --solution 'stop the old container first'",
    "--type discovery The staging database is reset every night",
    "--type rule --path src/api Handlers are thin; logic lives in services",
]


def take(top: Path, picture: Path) -> None:
    """Fill a memory below a folder, and take a picture of its page."""
    project, environ = top / "api", {"HOME": str(top), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    environ["PYTHONPATH"] = str(Path(__file__).parents[1] / "src")
    project.mkdir()
    for each in MEMORIES:
        _shell(f"vade add {each.replace(';', chr(92) + ';')}", project, environ)
    vade = str(Path(sys.executable).with_name("vade"))
    serving = pexpect.spawn(
        vade,
        ["serve", "--port", "0"],
        cwd=str(project),
        env=environ,
        encoding="utf-8",
        timeout=HANG,
        dimensions=(24, 400),
    )
    try:
        serving.expect(r"http://127\.0\.0\.1:\d+/enter\?key=\S+")
        with sync_playwright() as play:
            flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
            browser = play.chromium.launch(executable_path=chromium(), args=flags)
            page = browser.new_page(viewport={"width": SIZE["width"], "height": SIZE["height"]})
            page.goto(str(serving.after))
            page.wait_for_url(re.compile(r"/~[^/]+/"), timeout=HANG * 1000)
            inside = re.match(r".*/~[^/]+", page.url)
            assert inside is not None
            page.goto(f"{inside[0]}/memories")
            page.get_by_text("Ann owns billing").first.wait_for()
            page.screenshot(path=picture)
            browser.close()
    finally:
        serving.close(force=True)


def chromium() -> str | None:
    """The system's Chromium, where there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def _shell(command: str, folder: Path, environ: Mapping[str, str]) -> None:
    path = f"{Path(sys.executable).parent}:{environ['PATH']}"
    subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**environ, "PATH": path}, check=True, capture_output=True
    )


def main() -> None:
    """Take it again."""
    with tempfile.TemporaryDirectory() as folder:
        take(Path(folder), PICTURE)


if __name__ == "__main__":
    main()
