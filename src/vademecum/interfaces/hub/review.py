"""What was verified by whom: the two-person rule of a workspace, and entries that have two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hub.documents import read_stamped
from vademecum.interfaces.hub.rejections import Rejection, wrong
from vademecum.interfaces.hub.streams import EXTERNAL, is_own_stamp, push_facts
from vademecum.memory.sync import edits, trust

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection

    from vademecum.interfaces.hub.access import HubCaller
    from vademecum.interfaces.hub.streams import Desk, Push, SyncFact

TWO_PERSON = "two_person"


def read_rules(connection: Connection[Any], ws: int) -> dict[str, Any]:
    """The rules of a workspace."""
    row = connection.execute("SELECT rules FROM hub.workspace WHERE ws = %s", (ws,)).fetchone()
    return dict(row[0]) if row else {}


def set_rule(connection: Connection[Any], caller: HubCaller, name: str, *, on: object) -> dict[str, Any]:
    """Switch a rule of the workspace on or off."""
    caller.need("owner", person=True)
    if name != TWO_PERSON or not isinstance(on, bool):
        raise wrong("there is no such rule")
    connection.execute(
        "UPDATE hub.workspace SET rules = rules || jsonb_build_object(%s::text, %s::boolean) WHERE ws = %s",
        (name, on, caller.ws),
    )
    return {"rule": name, "on": on}


def push_reviewed(desk: Desk, push: Push) -> dict[str, Any]:
    """Add facts as `push_facts` does, under the workspace's rules, and remember which entries disagree."""
    _check_vouches(desk, push)
    done = push_facts(desk, push)
    _note_conflicts(desk, push.facts)
    return done


def _check_vouches(desk: Desk, push: Push) -> None:
    """Refuse that somebody verifies what they or their agent wrote, where the workspace needs two people."""
    vouches = [
        fact
        for fact, stamp in zip(push.facts, push.stamps, strict=True)
        if fact.kind == "vouch" and fact.value is True and not is_own_stamp(desk, fact, stamp)
    ]
    if not vouches or not read_rules(desk.connection, desk.caller.ws).get(TWO_PERSON):
        return
    state, authors = edits.FactSet(push.facts), dict[Any, trust.FactAuthor]()  # by dot
    for fact, stamp in zip(push.facts, push.stamps, strict=True):
        authors[fact.dot] = (desk.caller.name if stamp is None else EXTERNAL, "")
        if stamp is not None and is_own_stamp(desk, fact, stamp):
            authors[fact.dot] = (stamp.author, stamp.role)
    docs = {fact.doc for fact in vouches}
    for fact, stamp in read_stamped(desk.connection, desk.caller.ws, desk.stream, docs):
        state.add(fact)
        authors[fact.dot] = (stamp.author, stamp.role)
    for fact in vouches:
        writers = trust.writers_of(state, fact.doc, authors).get(fact.target.split(" ", 1)[0], ())
        if desk.caller.name in writers:
            raise Rejection(
                403,
                "two-person",
                "two people are needed here: somebody else has to verify what you wrote",
                n=fact.n,
            )


def _note_conflicts(desk: Desk, new: Sequence[SyncFact]) -> None:
    """Remember the entries of which somebody wrote another version without having seen the one there is."""
    texts = [fact for fact in new if fact.kind == "put"]
    if not texts:
        return
    rows = desk.connection.execute(
        "SELECT doc, target, replica || ':' || n, over FROM hub.fact"
        " WHERE ws = %s AND stream = %s AND doc = ANY(%s) AND kind = 'put'",
        (desk.caller.ws, desk.stream, sorted({fact.doc for fact in texts})),
    ).fetchall()
    known: dict[tuple[str, str], dict[str, list[str]]] = {}
    for doc, target, dot, over in rows:
        known.setdefault((doc, target), {})[dot] = over
    found = {
        (fact.doc, fact.target)
        for fact in texts
        for dot, over in known[fact.doc, fact.target].items()
        if str(fact.dot) not in (dot, *over) and dot not in {str(each) for each in fact.over}
    }
    if found:
        with desk.connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO hub.conflict VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                [(desk.caller.ws, desk.stream, doc, target) for doc, target in sorted(found)],
            )
