"""Search on the hub, for clients without a copy of memory.

The workspace's index in PostgreSQL finds passages, and the same engine as on machines ranks them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import UsageError
from vademecum.index import EVERYTHING, Filter
from vademecum.interfaces.present import to_json
from vademecum.search import (
    MODES,
    ORDERS,
    Answer,
    Coverage,
    Engine,
    Options,
    Query,
    base,
    moment_of,
    passage,
    relevance,
    times_asked,
)
from vademecum.text import outgoing
from vademecum.types import RecordType, Scope
from vademecum_hub.index_updates import count_stale
from vademecum_hub.postgres_index import PostgresIndex
from vademecum_hub.rejections import malformed
from vademecum_hub.workspace_index import make_sync
from vademecum_hub.workspace_rules import needs_two_people

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from psycopg import Connection

    from vademecum.search import Ranking
    from vademecum_hub.authorization import HubCaller

_WORDS = ("query", "mode", "scope", "type", "as_of", "now")  # parameters of a query string
_NUMBERS = ("max_results",)
MOST_RESULTS = 100
LONGEST_QUERY = 10_000  # characters


def read_query_string(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the search question in a URL's query string, in the form of a POST's JSON body."""
    question: dict[str, Any] = {name: query[name] for name in _WORDS if name in query}
    if "q" in query:
        question["query"] = query["q"]
    for name in _NUMBERS:
        if name in query:
            if not query[name].isdecimal() or len(query[name]) > 6:
                raise malformed(f"`{name}` is not a number")
            question[name] = int(query[name])
    return question


def search_workspace(
    connection: Connection[Any], caller: HubCaller, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the answer to a question, with passages of the caller's workspace.

    The answer says how many changed documents are not indexed yet (`stale`).
    """
    caller.require("reader", scope="read")
    try:
        question = read_question(given)
    except UsageError as error:
        raise malformed(str(error)) from error
    stale = count_stale(connection, caller.ws)
    two = needs_two_people(connection, caller.ws)
    found, vouched = answer_question(connection, caller.ws, question, stale=stale, two_person=two)
    answer = to_json.answer_json(found, explain=question.options.explain)
    for each, members in zip(answer["results"], vouched, strict=True):
        if members:
            each["vouched"] = members
    return {**answer, "stale": stale}


# ------------------------------------------------------------------------------- questions and answers


class HubQuestion(NamedTuple):
    """A client's search question after all checks."""

    query: Query
    options: Options
    max_weak: int | None = None
    places: frozenset[str] | None = None  # the only places to search


def read_question(given: Mapping[str, Any]) -> HubQuestion:
    """Check and return a client's search question; raise UsageError with the first mistake in it."""
    text = given.get("query")
    if not isinstance(text, str) or len(text) > LONGEST_QUERY:
        raise UsageError(f"a query is a text of at most {LONGEST_QUERY} characters")
    most = _read_number(given, "max_results", Options().max_results, 1, MOST_RESULTS)
    options = Options(
        mode=_read_choice(given, "mode", MODES, "hybrid"),
        max_results=int(most),
        min_score=_read_number(given, "min_score", 0.0, 0.0, 1.0),
        sort_by=_read_choice(given, "sort_by", ORDERS[:1], None),
        explain=given.get("explain") is True,
    )
    question = base.parse(outgoing.clean_text(text))
    scope, kind = _read_choice(given, "scope", Scope, None), _read_choice(given, "type", RecordType, None)
    at, when = given.get("as_of"), given.get("now")
    moment = moment_of(None if when is None else str(when), datetime.now(UTC))
    question = question._replace(
        scope=question.scope if scope is None else Scope(scope),
        type=kind or question.type,
        as_of=None if at is None else base.as_of(str(at)),
        times=times_asked(question.text, moment),
    )
    weak = None if given.get("max_weak") is None else int(_read_number(given, "max_weak", 0, 0, MOST_RESULTS))
    return HubQuestion(question, options, weak, _read_places(given.get("places")))


def _read_places(value: Any) -> frozenset[str] | None:
    if value is None:
        return None
    named = isinstance(value, list) and all(isinstance(each, str) for each in value)
    if not named or len(value) > MOST_RESULTS:
        raise UsageError(f"`places` are at most {MOST_RESULTS} names")
    return frozenset(value)


def _read_choice(given: Mapping[str, Any], name: str, known: Iterable[str], default: Any) -> Any:
    value = given.get(name)
    if value is None:
        return default
    if value not in (choices := [*map(str, known)]):
        raise UsageError(f"`{name}` is one of {', '.join(choices)}")
    return value


def _read_number(given: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = given.get(name, default)
    if type(value) not in (int, float) or not least <= value <= most:
        raise UsageError(f"`{name}` is a number from {least:g} to {most:g}")
    return float(value)


def answer_question(
    connection: Any, ws: int, question: HubQuestion, *, stale: int, two_person: bool = False
) -> tuple[Answer, list[list[str]]]:
    """Return the best passages, ranked as local search ranks them, and the members who verified each.

    `stale` is the number of changed documents that are not indexed yet; the answer repeats this number.
    """
    index = PostgresIndex(connection, ws)
    engine = Engine(index, make_sync(index, EVERYTHING), lambda _: {})
    query, options = question.query, question.options
    found = _rank(engine, index, query, options, question.places)
    if query.phrases and not found.hits:
        anything = options._replace(min_score=0.0, max_results=1)
        if options.min_score <= 0 or not _rank(engine, index, query, anything, question.places).hits:
            query = base.without_phrases(query)
            found = _rank(engine, index, query, options, question.places)
    total, indexed = index.count_files()
    coverage = Coverage(total, indexed, stale, total - indexed)
    degraded = [f"stale: {stale} changed documents are not searched yet"] if stale else []
    embedder = None if found.by_words else engine.embedder
    answer = Answer(
        tuple(passage(hit, explain=options.explain) for hit in found.hits),
        found.mode,
        coverage,
        (*degraded, *found.degraded),
        *(("none", "") if embedder is None else (embedder.provider, embedder.model)),
        notes=found.notes,
        hidden=found.hidden,
    )
    weak = relevance.most_weak(options.max_results) if question.max_weak is None else question.max_weak
    answer = base.without_weak(answer, weak)
    notes = query.notes if answer.mode == "metadata" else (*query.notes, *query.times.notes)
    vouched = [_read_vouching_members(hit.row.place, two_person=two_person) for hit in found.hits]
    return replace(answer, notes=(*notes, *answer.notes)), vouched[: len(answer.results)]


def _read_vouching_members(place: bytes, *, two_person: bool) -> list[str]:
    """Return the members whose verification of a passage counts under the workspace's rule."""
    both = json.loads(place) if place else [[], []]
    if not all(isinstance(each, list) for each in both):  # indexed before there was a rule
        both = [both, []]
    return [str(each) for each in both[1 if two_person else 0]]


def _rank(
    engine: Engine,
    index: PostgresIndex,
    query: Query,
    options: Options,
    places: frozenset[str] | None,
) -> Ranking:
    """Return the ranked passages of a workspace, limited to the scope and places that the question names."""
    visible = EVERYTHING
    if query.scope is not None or places is not None:
        question = (each for each in index.places() if query.scope in (None, each.scope))
        visible = Filter(tuple(each for each in question if places is None or str(each) in places))
    with index:
        return engine.search(query, visible, options, engine.meaning(query, options))
