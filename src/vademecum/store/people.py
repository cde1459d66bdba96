"""Rules about people: who is speaking, who may decide, and which of a person's texts a change would remove.

Code that changes a file for a caller less trusted than a person asks here first: entries that a person wrote
or verified, and the labels of such records, stay. Adding text beside a person's text is always allowed.
"""

from __future__ import annotations

import os
import re
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed, PersonsText
from vademecum.fields import FIELDS, Guard
from vademecum.named_tuple import NamedTuple
from vademecum.store import decisions
from vademecum.store.merge import is_guarded, is_persons
from vademecum.text import document, filenames, frontmatter, names, normalise
from vademecum.text.document import decode
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.store.home import Home
    from vademecum.store.merge import Verified
    from vademecum.store.scopes import Caller

SCRIPT = "VADE_SCRIPT"  # by which a script says its name

_OFF = frozenset({"", "0", "false", "no"})


class AgentVariables(NamedTuple):
    """The environment variables that agents set, each with the agent's name."""

    agents: Mapping[str, str] = MappingProxyType({})  # for the commands that they run
    editors: Mapping[str, str] = MappingProxyType({})  # in a person's terminal too: there they say nothing


class Speaker(NamedTuple):
    """The speaker at a command line; `undecided` says why the speaker may not decide, or is empty."""

    origin: Origin
    undecided: str = ""
    hint: str = ""
    agent: str = ""  # inside of which it runs


def speaker(
    environ: Mapping[str, str], *, terminal: bool, scripts: Sequence[str] = (), variables: AgentVariables
) -> Speaker:
    """Return who speaks: a person, or the agent to which this environment belongs.

    A person decides at a `terminal`, or through a script that is named in `scripts`. An agent never decides,
    even with the name of such a script. The variables of editors count only where there is no terminal.
    """
    known = {**variables.agents, **({} if terminal else variables.editors)}
    variable = next((name for name in known if environ.get(name, "").strip().lower() not in _OFF), None)
    if variable is not None:
        agent = known[variable]
        return Speaker(
            Origin.AGENT,
            f"this command line runs inside {agent} ({variable} is set)",
            _OWN_TERMINAL,
            "" if variable == "AI_AGENT" else agent.lower(),
        )
    if terminal:
        return Speaker(Origin.USER)
    script = environ.get(SCRIPT, "").strip()
    if script and script in scripts:
        return Speaker(Origin.USER)
    if script:
        return Speaker(
            Origin.USER,
            f"the script {names.shown(script)} is not allowed to decide",
            "name it in `scripts` under [approval] in your own config.toml, or use a terminal",
        )
    return Speaker(
        Origin.USER,
        "this is not a terminal",
        "use a terminal, or allow a script by name: `scripts` under [approval] in your own config.toml",
    )


_OWN_TERMINAL = "use a terminal of your own"


def login() -> str:
    """Return the user's name on this machine, for the audit."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME") or os.environ.get("USERNAME") or ""
    return re.sub(r"[^A-Za-z0-9._-]", "", name)[:64] or "user"


def has_terminal() -> bool:
    """Return whether both input and output of the process are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


WHY = "the user wrote or verified this, and only the user can change it"


def is_bound(caller: Caller) -> bool:
    """Return whether the caller must not change a person's texts."""
    return caller.origin is not Origin.USER and not caller.approved


def taken(before: bytes, after: bytes | None, *, kind: str, verified: Verified) -> str:
    """Return a description of a person's texts or fields that a change would remove; empty when none."""
    try:
        values, entries = _read(before, kind)
    except Malformed:
        return "a file that cannot be read"  # whose it is nobody can say
    guarded = is_guarded(values)
    own = [each for each in entries if each.live and (guarded or is_persons(each, verified))]
    if not own and not guarded:
        return ""
    if after is None:
        return "the whole record"
    try:
        changed, left = _read(after, kind)
    except Malformed:
        return "the whole record"
    standing = {(normalise(each.text), each.origin or Origin.USER) for each in left if each.live}
    if any((normalise(each.text), each.origin or Origin.USER) not in standing for each in own):
        return "an entry"
    return _changed_field(values, changed)


def check_loss(
    home: Home, caller: Caller, before: bytes | None, after: bytes | None, *, kind: str = filenames.RECORDS
) -> None:
    """Raise PersonsText for a change that removes a person's text or fields, unless the caller may do so."""
    gone = barred(home, caller, before, after, kind=kind)
    if gone:
        raise PersonsText(f"{WHY} ({gone})")


def barred(
    home: Home, caller: Caller, before: bytes | None, after: bytes | None, *, kind: str = filenames.RECORDS
) -> str:
    """Return a description of what the caller must not remove with this change; empty when allowed."""
    if before is None or before == after or not is_bound(caller):
        return ""
    return taken(before, after, kind=kind, verified=lambda text: decisions.verified(home, text))


def without_claims(caller: Caller, before: bytes | None, text: str) -> tuple[str, tuple[str, ...]]:
    """Return a record's text without the values that only a person sets, and the names of the dropped fields.

    Unless the caller is a person who decides, the `personal` fields keep their values of `before`. Signatures
    of entries stay in the text, because the store signs changed entries itself; if a signature has an origin
    of a higher rank than the caller's, `origin` is among the names.
    """
    if caller.decides:
        return text, ()
    try:
        parsed = document.parse(text)
        earlier = None if before is None else document.parse(decode(before))
    except Malformed:
        return text, ()  # refused elsewhere, or kept as it is
    was, is_now = ({} if earlier is None else earlier.front.values), parsed.front.values
    changes = {
        row.name: was.get(row.name)
        for row in FIELDS
        if row.personal and is_now.get(row.name) not in (None, was.get(row.name))
    }
    claimed = [*changes]
    if is_now.get("protected") is True and is_now.get("protected_by") != was.get("protected_by"):
        changes["protected_by"] = was.get(
            "protected_by"
        )  # a protection without the field reads as a person's
    known = {(normalise(each.text), each.origin) for each in (earlier.entries if earlier else ())}
    if any(
        each.origin is not None
        and each.origin.rank < caller.origin.rank
        and (normalise(each.text), each.origin) not in known
        for each in parsed.entries
    ):
        claimed.append("origin")
    return (frontmatter.edit(text, changes) if changes else text), tuple(claimed)


def _read(content: bytes, kind: str) -> tuple[Mapping[str, Any], Sequence[Entry]]:
    text = decode(content)
    if kind == filenames.PINNED:
        return {}, document.blocks(text)
    parsed = document.parse(text)
    return parsed.front.values, parsed.entries


def _changed_field(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the name of a field in a person's record that a change would alter; empty when none."""
    for field in FIELDS:
        was, is_now = before.get(field.name), after.get(field.name)
        if field.guard is Guard.ALWAYS:
            changed = field.kind.read(was) != field.kind.read(is_now)
        else:
            changed = field.guard is Guard.WHEN_SET and was not in (None, is_now)
        if changed:
            return f"its {_CALLED.get(field.name, field.name.replace('_', ' '))}"
    return ""


_CALLED = {"protected": "protection"}
