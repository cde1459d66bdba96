"""After a session a model reads it in a process of its own, which the hook starts and does not wait for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hooks.calls import wait_until
from hooks.test_nudge import SEATED
from llm.wire_server import Hang, Say, serving
from vademecum.memory import background_reading, distilling

if TYPE_CHECKING:
    from hooks.calls import World
    from llm.wire_server import WireServer
    from vademecum.memory.distilling import DistillRequest
    from vademecum.store import Home

SAID = "We keep sessions in Postgres and never in Redis."
PROPOSED = {"kind": "decision", "text": "Sessions are kept in Postgres.", "by": "user", "quote": SAID}


def configured(world: World, server: WireServer) -> None:
    memory = world.memory()
    memory.store("Deploys run at ten", key="deploys")
    endpoint = server.endpoint("compatible")
    (world.home / "config.toml").write_text(
        f'[capture]\nmodel = "compatible:parrot-1"\n[llm]\nendpoint = "{endpoint}"\n', "utf-8"
    )
    where = world.memory().heard.find_destination()
    assert where is not None
    memory.heard.allow_model(where.name)


def end(world: World, **environ: str) -> None:
    path = world.transcript("s", ("user", f"Hello. {SAID}"), ("assistant", "Yes."))
    given = {"session_id": "s", "transcript_path": str(path)}
    environ = {**SEATED, "OPENAI_API_KEY": "none", **environ}
    assert not world.call("claude-code", "session-end", given, **environ).out


def test_a_try_counts_although_the_process_is_killed_in_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = world.memory()
    tried: list[DistillRequest] = []

    def killed(home: Home, request: DistillRequest) -> bool:
        tried.append(request)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(background_reading, "start_process", lambda *_: None)
        distilling.ask(memory, "s", is_over=True)
    monkeypatch.setattr(distilling, "_distill", killed)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            distilling.serve(memory.home)
    distilling.serve(memory.home)
    assert [each.tries for each in tried] == [1, 2, 3]
    assert not memory.home.names("heard", "requests")


@pytest.mark.full
def test_what_the_model_proposes_after_a_session_waits_in_review(world: World) -> None:
    with serving() as server:
        server.script(Say(json.dumps({"proposals": [PROPOSED]})))
        configured(world, server)
        end(world)
        wait_until(lambda: [each for _, each in world.memory().heard.distilled() if each.added])
        items = world.memory().review.inbox(["signal"]).items
        assert any("compatible:parrot-1 proposed it" in each.why for each in items)
        assert len(world.memory().list().records) == 1
        wait_until(lambda: not world.memory().home.names("heard", "requests"))


def test_no_model_reads_the_session_of_a_script(world: World) -> None:
    with serving() as server:
        server.script(Hang())
        configured(world, server)
        end(world, CI="true")
        wait_until(world.logs)
        assert not (world.home / "heard" / "requests").exists()
        assert server.seen == []
