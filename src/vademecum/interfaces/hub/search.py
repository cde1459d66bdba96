"""Search on the hub, for clients without a copy: what is asked, answered by the engine that machines have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.errors import UsageError
from vademecum.interfaces.hub.projection import count_stale
from vademecum.interfaces.hub.rejections import wrong
from vademecum.interfaces.hub.review import TWO_PERSON, read_rules
from vademecum.interfaces.present import to_json
from vademecum.memory import hub_search

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import Connection

    from vademecum.interfaces.hub.access import HubCaller

_WORDS = ("query", "mode", "scope", "type", "as_of", "now")  # of a question in an address
_NUMBERS = ("max_results",)


def read_address(query: Mapping[str, str]) -> dict[str, Any]:
    """A question that stands in an address, as one in a body."""
    asked: dict[str, Any] = {name: query[name] for name in _WORDS if name in query}
    if "q" in query:
        asked["query"] = query["q"]
    for name in _NUMBERS:
        if name in query:
            if not query[name].isdecimal() or len(query[name]) > 6:
                raise wrong(f"`{name}` is not a number")
            asked[name] = int(query[name])
    return asked


def search(connection: Connection[Any], caller: HubCaller, given: Mapping[str, Any]) -> dict[str, Any]:
    """The passages of the caller's workspace that answer, and how much of it was searched."""
    caller.need("reader", scope="read")
    try:
        asked = hub_search.read_question(given)
    except UsageError as error:
        raise wrong(str(error)) from error
    stale = count_stale(connection, caller.ws)
    two = bool(read_rules(connection, caller.ws).get(TWO_PERSON))
    found, vouched = hub_search.answer(connection, caller.ws, asked, stale=stale, two_person=two)
    told = to_json.answer_json(found, explain=asked.options.explain)
    for each, members in zip(told["results"], vouched, strict=True):
        if members:
            each["vouched"] = members
    return {**told, "stale": stale}
