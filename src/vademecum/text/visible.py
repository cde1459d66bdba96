"""Text that says what it shows: without escapes, controls, directions and characters nobody can see.

What is on disk keeps every character, since some scripts need them; whatever is shown to a person or put
before a model goes through here.
"""

from __future__ import annotations

import re

# Escape sequences of terminals, whole where they are whole.
_SEQUENCES = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])?|\x9b[0-?]*[ -/]*[@-~]"
)
# Every character of the Unicode property Default_Ignorable_Code_Point; Python's tables do not have it.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Controls but for tab and line feed, marks of annotations, halves of characters, private characters.
_UNSEEN = re.compile(
    f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb\ud800-\udfff\ue000-\uf8ff"
    f"\U000f0000-\U000ffffd\U00100000-\U0010fffd{_IGNORABLE}]"
)
_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def visible(text: str) -> str:
    """A text without anything that moves a cursor, changes a colour or hides what it says."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub("", _SEQUENCES.sub("", _BREAKS.sub("\n", text)))


def spelled(text: str) -> str:
    """A text with what cannot be seen written out, for a person who has to decide about it."""
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)
