"""The two-person rule of a workspace, and the list of its entries with conflicting versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.sync import edits, team_trust
from vademecum_hub.rejections import Rejection, malformed
from vademecum_hub.stream_documents import read_stamped
from vademecum_hub.streams import EXTERNAL, is_own_stamp, push_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection

    from vademecum_hub.authorization import HubCaller
    from vademecum_hub.streams import Push, RequestContext, SyncFact

TWO_PERSON = "two_person"


def read_rules(connection: Connection[Any], ws: int) -> dict[str, Any]:
    """Return the rules of a workspace."""
    row = connection.execute("SELECT rules FROM hub.workspace WHERE ws = %s", (ws,)).fetchone()
    return dict(row[0]) if row else {}


def needs_two_people(connection: Connection[Any], ws: int) -> bool:
    """Return whether the two-person rule holds: an author's own verification does not count."""
    return bool(read_rules(connection, ws).get(TWO_PERSON))


def set_rule(connection: Connection[Any], caller: HubCaller, name: str, *, on: object) -> dict[str, Any]:
    """Switch a rule of the workspace on or off; only the two-person rule exists."""
    caller.require("owner", person=True)
    if name != TWO_PERSON or not isinstance(on, bool):
        raise malformed("there is no such rule")
    connection.execute(
        "UPDATE hub.workspace SET rules = rules || jsonb_build_object(%s::text, %s::boolean) WHERE ws = %s",
        (name, on, caller.ws),
    )
    return {"rule": name, "on": on}


def push_reviewed(context: RequestContext, push: Push) -> dict[str, Any]:
    """Add facts as `push_facts` does, but check the workspace's rules and note conflicting entries."""
    _check_vouches(context, push)
    done = push_facts(context, push)
    _note_conflicts(context, push.facts)
    return done


def _check_vouches(context: RequestContext, push: Push) -> None:
    """Reject a vouch for a member's own or their agent's text if the two-person rule holds."""
    vouches = [
        fact
        for fact, stamp in zip(push.facts, push.stamps, strict=True)
        if fact.kind == "vouch" and fact.value is True and not is_own_stamp(context, fact, stamp)
    ]
    if not vouches or not needs_two_people(context.connection, context.caller.ws):
        return
    state, authors = edits.FactSet(push.facts), dict[Any, team_trust.FactAuthor]()  # by dot
    for fact, stamp in zip(push.facts, push.stamps, strict=True):
        authors[fact.id] = (context.caller.name if stamp is None else EXTERNAL, "")
        if stamp is not None and is_own_stamp(context, fact, stamp):
            authors[fact.id] = (stamp.author, stamp.role)
    docs = {fact.doc for fact in vouches}
    for fact, stamp in read_stamped(context.connection, context.caller.ws, context.stream, docs):
        state.add(fact)
        authors[fact.id] = (stamp.author, stamp.role)
    for fact in vouches:
        writers = team_trust.writers_of(state, fact.doc, authors).get(fact.target.split(" ", 1)[0], ())
        if context.caller.name in writers:
            raise Rejection(
                403,
                "two-person",
                "two people are needed here: somebody else has to verify what you wrote",
                n=fact.n,
            )


def _note_conflicts(context: RequestContext, new: Sequence[SyncFact]) -> None:
    """Note the entries to which a push adds a version that does not replace the current version."""
    texts = [fact for fact in new if fact.kind == "put"]
    if not texts:
        return
    rows = context.connection.execute(
        "SELECT doc, target, replica || ':' || n, over FROM hub.fact"
        " WHERE ws = %s AND stream = %s AND doc = ANY(%s) AND kind = 'put'",
        (context.caller.ws, context.stream, sorted({fact.doc for fact in texts})),
    ).fetchall()
    known: dict[tuple[str, str], dict[str, list[str]]] = {}
    for doc, target, fact_id, based_on in rows:
        known.setdefault((doc, target), {})[fact_id] = based_on
    found = {
        (fact.doc, fact.target)
        for fact in texts
        for fact_id, based_on in known[fact.doc, fact.target].items()
        if str(fact.id) not in (fact_id, *based_on) and fact_id not in {str(each) for each in fact.based_on}
    }
    if found:
        with context.connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO hub.conflict VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                [(context.caller.ws, context.stream, doc, target) for doc, target in sorted(found)],
            )
