"""The hub's page for tests: a browser's requests without a browser, and documents as machines make them."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from hub.hubs import ask
from vademecum.sync.blocks import document_id
from vademecum.sync.diff import FactWriter, diff
from vademecum.sync.facts import parse, render
from vademecum.sync.projection import FactSet, project

if TYPE_CHECKING:
    from hub.hubs import Answer, World
    from vademecum.sync.facts import SyncFact

STREAM = "project/atlas"


def entry(text: str, mark: str, *, time: str = "2026-11-01T10:00:00Z", origin: str = "user") -> str:
    return f"## {time}\n{text}\n<!-- origin: {origin} | id: {mark} -->\n"


class AgentLedger(FactWriter):
    """A ledger of an agent's machine: nothing in it is a person's."""

    def write(self, doc: str, kind: str, target: str = "", value: Any = None, **given: Any) -> SyncFact:
        return super().write(doc, kind, target, value, **{**given, "origin": "agent"})


class Machine:
    """A member's machine: its files of one place become facts that are pushed, and others' become files."""

    def __init__(
        self, world: World, replica: str, token: str, stream: str = STREAM, *, agent: bool = False
    ) -> None:
        self.kind = AgentLedger if agent else FactWriter
        self.world, self.replica, self.token, self.stream = world, replica, token, stream
        self.seen = FactSet()
        self.last: Any = None

    def pull(self) -> dict[str, str]:
        lines = self.world.pull(self.stream, token=self.token, epoch=1).lines
        for each in lines:
            self.seen.add(parse(json.dumps(each["fact"])))
        return {path: shows.text for path, shows in project(self.seen).items()}

    def write(self, path: str, text: str | None, *, door: str = "cli", epoch: int = 1) -> Answer:
        """Save a file as this machine last saw the place, and push what that means."""
        lamport = max((fact.lamport for fact in self.seen.facts.values()), default=0)
        ledger = self.kind(self.stream, self.replica, self.seen, self.last, lamport, interface=door)
        base = project(self.seen).get(path)
        diff(ledger, base, path, text, doc=document_id(path, None))
        self.last = ledger.last
        head = json.dumps({"epoch": epoch, "replica": self.replica}).encode()
        body = b"\n".join([head, *map(render, ledger.made)])
        return self.world.ask("POST", f"/v1/streams/{quote(self.stream)}/facts", self.token, body)


@dataclass
class Browser:
    """A browser that was let in: its cookie, its door and its page's secret."""

    world: World
    door: str
    cookie: str
    secret: str = ""

    def get(self, path: str, *, accept: str = "text/html", **query: Any) -> Answer:
        where = f"{self.door}{path}" + (f"?{urlencode(query)}" if query else "")
        return ask(self.world.url, "GET", where, Cookie=self.cookie, Accept=accept, Vade_Protocol="")

    def json(self, path: str, **query: Any) -> Any:
        answer = self.get(f"{path}.json", **query)
        assert answer.status == 200, answer.body
        return answer.json

    def post(self, path: str, body: dict[str, Any], **headers: str) -> Answer:
        given = {
            "Cookie": self.cookie,
            "Vade_Page": self.secret,
            "Content_Type": "application/json",
            **headers,
        }
        where, sent = f"{self.door}/api/v1{path}", json.dumps(body).encode()
        return ask(self.world.url, "POST", where, "", sent, Vade_Protocol="", **given)

    def document(self, path: str, stream: str = STREAM) -> dict[str, Any]:
        rows = self.json("/documents", stream=stream)["documents"]
        doc = next(each["doc"] for each in rows if each["path"] == path)
        found: dict[str, Any] = self.json("/document", stream=stream, doc=doc)
        return found

    def change(self, what: str, shown: dict[str, Any], number: int, **given: Any) -> Answer:
        """Do something to an entry of a document as it was shown."""
        entry = shown["entries"][number]
        body = {"stream": shown["stream"], "doc": shown["doc"], "entry": entry["id"], "was": entry["was"]}
        return self.post(what, {**body, **given})


def link_of(world: World, token: str | None = None) -> str:
    answer = world.ask("POST", "/v1/page", token, {})
    assert answer.status == 200, answer.body
    return str(answer.json["path"])


def browse(world: World, token: str | None = None) -> Browser:
    """Open the page as whoever holds a token."""
    answer = ask(world.url, "GET", link_of(world, token), Accept="text/html", Vade_Protocol="")
    assert answer.status == 200, answer.body
    cookie = answer.headers["set-cookie"].partition(";")[0]
    door = re.search(r'data-door="([^"]+)"', answer.body.decode())
    assert door
    made = Browser(world, door[1], cookie)
    page = made.get("/activity").body.decode()
    secret = re.search(r'name="vade-page" content="([^"]+)"', page)
    assert secret
    made.secret = html.unescape(secret[1])
    return made
