"""Keep a reply of `NO_REPLY` from the person it was not meant for, whole or while it streams in.

A reply is silent when it starts with the token, in any case, alone or followed by something that cannot
belong to the word: `NO_REPLY`, `no_reply.`, `**NO_REPLY**`, `NO_REPLY: nothing to store`. `NO_REPLYING` and
`No reply came` are answers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TOKEN = "NO_REPLY"
_WRAP = r"""[\s*`"'(\[<]{0,32}"""  # what models put around it
_SILENT = re.compile(rf"{_WRAP}{TOKEN}(?![\w-])", re.IGNORECASE)


def _prefixes(word: str) -> str:
    """A pattern for every beginning of a word: N, NO, NO_ …"""
    found = ""
    for letter in reversed(word):
        found = f"(?:{letter}{found})?"
    return found


_MAY_BE = re.compile(_WRAP + _prefixes(TOKEN), re.IGNORECASE)


def is_silent(text: str) -> bool:
    """Whether a whole reply is to be suppressed."""
    return _SILENT.match(text) is not None


class ReplyListener(NamedTuple):
    """A reply as it streams in: what is held back, and what is known of it."""

    held: str = ""
    silent: bool = False
    speaking: bool = False

    def feed(self, chunk: str) -> tuple[ReplyListener, str]:
        """Hear one chunk; what comes back may be shown now."""
        if self.speaking:
            return self, chunk
        if self.silent:
            return self, ""
        text = self.held + chunk
        if _MAY_BE.fullmatch(text):
            return ReplyListener(held=text), ""
        if is_silent(text):
            return ReplyListener(silent=True), ""
        return ReplyListener(speaking=True), text

    def finish(self) -> str:
        """The reply has ended: what was held back and is to be shown after all."""
        return "" if self.silent or is_silent(self.held) else self.held
