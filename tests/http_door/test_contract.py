"""The description of the API is what the application does: by schemathesis, a generated client, a matrix."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import jsonschema
import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tools.schemas import stale

import tiers
from http_door import in_process
from http_door.in_process import Client
from vademecum.interfaces.http.api.schema import describe_api, operations
from vademecum.interfaces.http.app import create_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from http_door.in_process import Place

DOCUMENT = describe_api()
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    status_code_conformance,
    response_schema_conformance,
]
CASES, SOAK = tiers.few(120, 2_000), 20_000
BASE = f"http://127.0.0.1:{in_process.PORT}"
SENT = ("method", "url", "params", "headers", "json", "content", "data")
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return filled(tmp_path_factory.mktemp("contract"))


def filled(top: Path) -> Place:
    """An application with a little of everything."""
    made = in_process.made(top)
    page = made.person()
    for number in range(3):
        page(
            "POST",
            "/records",
            {"text": f"Fact {number} of the build.", "key": f"fact-{number}", "tags": ["a"]},
        )
    page("POST", "/journal", {"text": "Something happened."})
    made.client("read", "write")("POST", "/records", {"text": "An agent's word.", "key": "theirs"})
    return made


def test_the_description_in_the_docs_is_current() -> None:
    assert "openapi.json" not in stale()


def test_names_of_calls_are_stable_and_each_is_there_once() -> None:
    names = [each.id for each in operations()]
    assert len(set(names)) == len(names)
    recorded = json.loads((Path(__file__).parent / "operations.json").read_text())
    assert sorted(names) == recorded, "a name that a client calls must stay; new ones go into operations.json"


# ---------------------------------------------------------------- whatever is sent


def tried(place: Place, most: int, numbered: int) -> tuple[int, Counter[int]]:
    """Send made-up calls of every kind, and hold each answer against the description: the statuses."""
    seen: Counter[int] = Counter()
    every = [result.ok() for result in SCHEMA.get_all_operations() if isinstance(result, Ok)]
    token = place.client("write", "review").headers
    modes = list(GenerationMode)
    share = -(-most // len(every) // len(modes))
    with place.person().http as http:
        for operation, mode in itertools.product(every, modes):

            @seed(numbered)
            @settings(
                max_examples=share,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode), stranger=st.integers(0, 9))
            def call(case: Any, stranger: int) -> None:
                asked = case.as_transport_kwargs(base_url=BASE)
                asked["headers"] = {**asked["headers"], **(token if stranger else {})}
                if isinstance(asked.get("data"), bytes | str):
                    asked["content"] = asked.pop("data")
                got = http.request(**{name: value for name, value in asked.items() if name in SENT})
                seen[got.status_code] += 1
                case.validate_response(got, checks=CHECKS)

            call()
    return len(every), seen


@pytest.mark.scaled
def test_whatever_is_sent_gets_an_answer_that_the_description_has(place: Place) -> None:
    every, seen = tried(place, CASES, 21)
    assert every == len([*operations()])
    assert seen.total() >= CASES, seen
    assert {200, 401, 404, 422} <= set(seen)


@pytest.mark.soak
def test_ten_times_as_much_gets_one_too(tmp_path: Path) -> None:
    _, seen = tried(filled(tmp_path), SOAK, 2026)
    assert seen.total() >= SOAK, seen


# ---------------------------------------------------------------- a client made from the description


class Generated:
    """A client with a method for each call, made from the description alone."""

    def __init__(self, document: dict[str, Any], send: Client) -> None:
        self.document, self.send = document, send
        self.calls = {
            told["operationId"]: (method.upper(), path, told)
            for path, methods in document["paths"].items()
            for method, told in methods.items()
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method, path, told = self.calls[name]
        known = {each["name"]: each for each in told.get("parameters", ())}

        def call(body: Any = None, **given: Any) -> Any:
            parts = {each.replace("-", "_").lower(): each for each in known}
            assert given.keys() <= parts.keys(), f"{name} takes {sorted(parts)}"
            placed: dict[str, dict[str, str]] = {"path": {}, "query": {}, "header": {}}
            for word, value in given.items():
                placed[known[parts[word]]["in"]][parts[word]] = str(value)
            where = path.removeprefix("/api/v1")
            for word, value in placed["path"].items():
                where = where.replace(f"{{{word}}}", quote(value, safe=""))
            where += f"?{urlencode(placed['query'])}" if placed["query"] else ""
            got = self.send(method, where, body, **placed["header"])
            assert str(got.status_code) in told["responses"], (name, got.status_code, got.text)
            answer = told["responses"][str(got.status_code)]
            if "content" in answer:
                ((_, content),) = answer["content"].items()
                schema = {**content["schema"], "components": self.document["components"]}
                jsonschema.Draft202012Validator(schema).validate(got.json())
            return got

        return call


def test_a_client_made_from_the_description_makes_every_call(tmp_path: Path) -> None:
    place = filled(tmp_path)
    api = Generated(DOCUMENT, place.person())
    called: set[str] = set()

    def do(name: str, /, *given: Any, **named: Any) -> Any:
        called.add(name)
        return getattr(api, name)(*given, **named)

    key = {"key": "fact-0"}

    def tag() -> str:
        return str(do("get_record", **key).headers["etag"])

    do("list_records", limit=2)
    do("create_record", {"text": "Made by a client.", "key": "made"}, idempotency_key="one")
    text = do("get_record_text", **key)
    changed = text.json()["text"].replace("of the build", "of the test")
    do("replace_record_text", {"text": changed}, **key, if_match=text.headers["etag"])
    versions = do("list_record_versions", **key).json()["versions"]
    do("append_entry", {"text": "And another."}, **key)
    do("tag_record", {"add": ["b"]}, **key, if_match=tag())
    do("protect_record", {"on": True}, **key, if_match=tag())
    do("protect_record", {"on": False}, **key, if_match=tag())
    do("verify_record", {}, **key, if_match=tag())
    do("restore_record", {"version": versions[0]["id"]}, **key, if_match=tag())
    do("move_record", {"scope": "global"}, **key, if_match=tag())
    do("rename_record", {"key": "renamed"}, **key, if_match=tag())
    do("forget_record", key="made", if_match=do("get_record", key="made").headers["etag"])
    do("list_forgotten")
    run = do("change_records", {"action": "forget", "keys": ["fact-1"]}).json()["run"]
    do("list_runs")
    do("undo_run", run=run)
    do("start_run", {"what": "heal"})
    do("check")
    do("add_note", {"text": "By a client."})
    do("list_journal")
    pinned = do("get_pinned_text", name="MEMORY.md", scope="global")
    do(
        "replace_pinned_text",
        {"text": "# M\n\nBe brief.\n"},
        name="MEMORY.md",
        scope="global",
        if_match=pinned.headers["etag"],
    )
    do("list_pinned")
    do("list_pinned_versions", name="MEMORY.md", scope="global")
    pinned = do("get_pinned_text", name="MEMORY.md", scope="global")
    do("replace_pinned_text", {"text": "x\n"}, name="MEMORY.md", if_match=pinned.headers["etag"])
    pinned = do("get_pinned_text", name="MEMORY.md", scope="global")
    do("restore_pinned", {}, name="MEMORY.md", scope="global", if_match=pinned.headers["etag"])
    do("preview_text", {"text": "# M"})
    do("change_fields", {"text": "# M\n\nOld.\n", "title": "N", "entries": [{"index": 0, "text": "New."}]})
    do("search", q="the build", explain="true")
    session = in_process.said(place, "We deploy on Fridays.")
    do("list_sessions")
    do("get_session", session=session)
    do("export_session", session=session, kind="md")
    do("search_sessions", q="deploy Fridays", ranking="keywords")
    do("get_graph")
    do("preview_injection", q="build")
    place.client("write")(
        "DELETE", "/records/renamed", If_Match=do("get_record", key="renamed").headers["etag"]
    )
    waiting = do("list_pending").json()["items"]
    do("decide", {"ids": [waiting[0]["id"]], "yes": False})
    for name in ("get_status", "get_settings", "list_projects", "list_sources", "list_audit", "verify_audit"):
        do(name)
    do("change_setting", {"value": "off"}, name="sweep")
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "page.md").write_text("# A page\n")
    do("add_source", {"path": str(vault)})
    do("remove_source", name="vault")
    assert called == {each.id for each in operations()}


# ---------------------------------------------------------------- who may call what


def routes() -> Iterator[tuple[str, str, str, str]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, told in methods.items():
            yield (
                method.upper(),
                re.sub(r"\{\w+\}", "fact-0", path),
                told["x-vade-scope"],
                told["operationId"],
            )


def unfolded(found: Iterable[Any]) -> Iterator[APIRoute]:
    """Every route, those of routers inside of routers too."""
    for each in found:
        if isinstance(each, APIRoute):
            yield each
        yield from unfolded(getattr(getattr(each, "original_router", None), "routes", ()))


MAY = {"read": {"read"}, "write": {"read", "write"}, "review": {"read", "review"}}


def test_every_route_is_described_so_that_none_can_forget_its_scope(place: Place) -> None:
    described = {(path, method.upper()) for path, methods in DOCUMENT["paths"].items() for method in methods}
    served = {
        (route.path, method)
        for route in unfolded(create_app(place.site).routes)
        if route.path.startswith("/api/")
        for method in route.methods or ()
    }
    assert served - described == {("/api/v1/events", "GET"), ("/api/v1/openapi.json", "GET")}
    assert described <= served


@pytest.mark.parametrize("scope", sorted(MAY))
def test_a_token_reaches_the_routes_of_its_scope_and_no_other(scope: str, place: Place) -> None:
    client = Client(place, {"Authorization": f"Bearer {place.token(scope, name=f'only-{scope}')}"})
    for method, path, needed, name in routes():
        got = client(method, path.removeprefix("/api/v1"))
        refused = got.status_code == 403 and "has no scope" in got.text
        assert refused == (needed not in MAY[scope]), (name, got.status_code, got.text)


def test_no_route_opens_to_who_shows_half_of_what_a_page_has(place: Place) -> None:
    page = place.person()
    cookie, secret = page.headers["Cookie"], page.headers["Vade-Page"]
    held: list[tuple[str, dict[str, str]]] = [
        ("", {}),
        ("", {"Cookie": cookie}),
        ("", {"Cookie": cookie, "Vade-Page": secret}),
        (page.door, {}),
        (page.door, {"Vade-Page": secret}),
        (page.door, {"Cookie": cookie}),
        (page.door, {"Cookie": cookie, "Vade-Page": f"{secret}x"}),
        (page.door, {"Cookie": "vade-session=x", "Vade-Page": secret}),
        (page.door, {"Cookie": cookie, "Vade-Page": secret, "Sec-Fetch-Site": "same-site"}),
        (page.door, {"Cookie": cookie, "Vade-Page": secret, "Sec-Fetch-Site": "cross-site"}),
        ("", {"Authorization": f"Bearer {secret}"}),
    ]
    for door, headers in held:
        client = Client(place, headers, door)
        for method, path, _, name in routes():
            got = client(method, path.removeprefix("/api/v1"))
            assert got.status_code in (401, 403), (name, headers, got.text)
