"""The user's own editor, on a copy of a text."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from vademecum.errors import InvalidText, VadeError

if TYPE_CHECKING:
    from pathlib import Path


def from_editor(text: str, name: str, *, quiet: bool) -> tuple[str | None, Path]:
    """Let the user's editor change a copy of a text; `quiet` keeps its screen out of standard output."""
    import shlex
    import subprocess
    import tempfile
    from pathlib import Path

    draft = Path(tempfile.mkdtemp(prefix="vade-edit-"), name)
    draft.write_bytes(text.encode())
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        screen = sys.stderr if quiet else None
        code = subprocess.run([*shlex.split(editor), str(draft)], check=False, stdout=screen).returncode
    except (OSError, ValueError) as error:
        discard(draft)
        raise VadeError(
            f"the editor {editor} did not start", hint="name another one in the variable EDITOR"
        ) from error
    if code:
        typed = draft.is_file() and draft.read_bytes() != text.encode()
        if not typed:
            discard(draft)
        kept = f"; your text is kept in {draft}" if typed else ""
        raise VadeError(f"the editor ended with code {code}; nothing was changed{kept}", hint="try again")
    try:
        return draft.read_bytes().decode(), draft
    except FileNotFoundError:
        return None, draft
    except UnicodeDecodeError as error:
        raise InvalidText(f"the text is not UTF-8; it is kept in {draft}") from error


def discard(draft: Path) -> None:
    """Take an edited copy away, with the backups an editor may have left beside it."""
    import shutil

    shutil.rmtree(draft.parent, ignore_errors=True)
