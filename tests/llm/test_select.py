"""Naming a model, having none, and what is loaded and looked for when."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vademecum import config, resolve_model
from vademecum.errors import ConfigError, ModelFailed, UnknownName
from vademecum.llm import providers
from vademecum.llm.base import Budget, Limits
from vademecum.llm.providers import LocalServer, discover_servers, find_model, resolve

if TYPE_CHECKING:
    from llm.wire_server import WireServer

SOURCE = Path(providers.__file__).parent


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> Budget:
    """The budget of a process of its own."""
    budget = Budget()
    monkeypatch.setattr(providers, "PROCESS", budget)
    return budget


@pytest.mark.parametrize("name", [None, "", "none", "None", " NONE "])
def test_no_model_is_a_normal_state(name: str | None) -> None:
    assert resolve(name) is None
    assert resolve(name, config.Llm()) is None


def test_models_of_a_process_share_one_record_of_what_was_used(server: WireServer, process: Budget) -> None:
    models = [
        resolve_model(name, config.Llm(endpoint=server.endpoint("openai")))
        for name in ("compatible:a", "compatible:b")
    ]
    for model in models:
        assert model is not None
        model.text("?", limits=Limits(output=10))
        assert {*process.record} <= {"compatible:a", "compatible:b"}
    assert [each.budget.record for each in models] == [process.record] * 2  # type: ignore[union-attr]


def test_a_flag_wins_over_the_settings_and_may_say_none() -> None:
    model = resolve("openai:gpt-5-mini", flag="ollama:qwen3:8b")
    assert model is not None
    assert model.name == "ollama:qwen3:8b"
    assert resolve("openai:gpt-5-mini", flag="none") is None


@pytest.mark.parametrize(
    ("layer", "name"),
    [("file", "anthropic:from-file"), ("environment", "anthropic:from-env"), ("flag", "anthropic:flag")],
)
def test_the_settings_name_the_model_in_all_their_layers(tmp_path: Path, layer: str, name: str) -> None:
    (tmp_path / "config.toml").write_text('model = "anthropic:from-file"\n[llm]\ntimeout = "5s"\n')
    loaded = config.load(
        home=tmp_path,
        environ={"VADE_MODEL": "anthropic:from-env"} if layer == "environment" else {},
        flags={"model": "anthropic:flag" if layer == "flag" else None},
    )
    model = resolve(loaded.settings.model, loaded.settings.llm)
    assert model is not None
    assert model.name == name


def test_the_section_of_the_settings_is_heeded(
    server: WireServer, monkeypatch: pytest.MonkeyPatch, process: Budget
) -> None:
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    own = config.Llm(endpoint=server.endpoint("openai"), key_env="OTHER_KEY", timeout=7, budget=5_000)
    model = resolve("compatible:parrot-1", own)
    assert model is not None
    model.text("?", limits=Limits(output=10))
    assert server.seen[0].headers["authorization"] == "Bearer sk-other"
    assert process.spent == 18
    assert process.tokens == 5_000
    resolve("compatible:parrot-1", config.Llm(endpoint=server.endpoint("openai")))
    assert process.tokens is None


@pytest.mark.parametrize(
    "name", ["gpt-5-mini", "openai", "openai:", ":x", "llama3.2:3b", "parrot:x", " : ", "openai :"]
)
def test_what_names_no_model_is_refused_with_how_to_name_one(name: str) -> None:
    with pytest.raises(UnknownName, match="names no model") as caught:
        resolve(name)
    assert "openai:gpt-5-mini" in caught.value.hint


def test_providers_have_other_names_and_capitals() -> None:
    assert find_model("Gemini:gemini-3-pro").provider == "google"
    assert (
        find_model("openai-compatible:x", endpoint="http://127.0.0.1:1/v1/").endpoint
        == "http://127.0.0.1:1/v1"
    )
    assert find_model("ollama:qwen3:8b").model == "qwen3:8b"


def test_a_compatible_server_needs_its_address() -> None:
    with pytest.raises(ConfigError, match=r"llm\.endpoint is not set"):
        resolve("compatible:parrot-1", config.Llm())


@pytest.mark.parametrize(
    "endpoint",
    [
        "parrot",
        "ftp://x",
        "http://",
        "https://user:secret@x",
        "http://x?key=secret",
        "http://x#f",
        "http://x:y",
        "http://a b",
    ],
)
def test_an_address_that_is_none_is_refused_and_not_shown(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"llm\.endpoint") as caught:
        find_model("compatible:x", endpoint=endpoint)
    assert "secret" not in str(caught.value)


def test_a_missing_library_is_told_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("pydantic_ai")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    model = resolve("ollama:qwen3")
    assert model is not None
    with pytest.raises(ModelFailed, match="not installed") as caught:
        model.text("?")
    assert "pip install 'vademecum[ollama]'" in str(caught.value)


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_naming_a_model_loads_nothing_heavy_and_naming_none_not_even_the_client() -> None:
    code = """
import vademecum.llm.scripted
from vademecum.llm.providers import resolve
assert vademecum.llm.scripted.Scripted("x").text("?").text == "x"
assert (resolve(NAME) is None) == (NAME == "none")
"""
    assert "vademecum.llm.remote_model" not in loaded_by(f'NAME = "none"\n{code}')
    loaded = loaded_by(f'NAME = "openai:gpt-5-mini"\n{code}')
    assert "vademecum.llm.remote_model" in loaded
    assert not loaded & {"pydantic", "pydantic_ai", "openai", "anthropic", "google.genai", "httpx2", "numpy"}


def test_the_settings_and_the_models_do_not_know_each_other() -> None:
    assert all("vademecum.config" not in path.read_text() for path in SOURCE.glob("*.py"))
    assert "vademecum.llm" not in Path(config.__file__).read_text()


# Looking for a server on this machine.


def test_servers_on_this_machine_are_found_with_their_models(server: WireServer) -> None:
    server.ollama_models, server.llama_models = ["qwen3:8b", "llama3.2"], ["/models/tiny.gguf"]
    ollama, llama = discover_servers(ollama=server.port, llama=server.port, seconds=5)
    assert ollama == LocalServer("ollama", server.endpoint("ollama"), ("qwen3:8b", "llama3.2"))
    assert ollama.names == ("ollama:qwen3:8b", "ollama:llama3.2")
    assert llama.names == ("compatible:/models/tiny.gguf",)


def test_what_was_found_can_be_asked(server: WireServer) -> None:
    server.llama_models = ["tiny"]
    [found] = discover_servers(ollama=server.port, llama=server.port, seconds=5)
    model = resolve(found.names[0], config.Llm(endpoint=found.endpoint))
    assert model is not None
    assert model.text("?").text == "Polly."


def test_a_port_with_something_else_behind_it_is_no_server(server: WireServer) -> None:
    assert discover_servers(ollama=server.port, llama=server.port, seconds=5) == ()


def test_ports_that_nobody_listens_on_are_no_error() -> None:
    assert discover_servers(ollama=1, llama=1) == ()
