"""What needs a package that is not installed says in one sentence which extra brings it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent.parent.parent
# A finder that hides packages, as if they had never been installed.
HIDE = """\
import sys, runpy
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])
sys.meta_path.insert(0, Hidden())
"""


def without(hidden: Sequence[str], code: str, tmp_path: Path) -> str:
    """What a program says that fails without these packages: its last line."""
    done = subprocess.run(
        [sys.executable, "-c", HIDE.format(hidden=tuple(hidden)) + code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    return next(line for line in reversed((done.stdout + done.stderr).splitlines()) if "[" in line)


FRAMEWORKS = {
    "anthropic": (("anthropic",), "anthropic_memory", "claude_memory_tool"),
    "langgraph": (("langgraph",), "langgraph_store", "graph_with_langgraph"),
    "openai-agents": (("agents",), "openai_agents", "session_with_openai_agents"),
    "pydantic-ai": (("pydantic_ai",), "pydantic_ai", "agent_with_pydantic_ai"),
}


@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_an_adapter_and_its_example_name_their_extra(extra: str, tmp_path: Path) -> None:
    hidden, adapter, example = FRAMEWORKS[extra]
    said = f"{hidden[0]} is not installed: pip install 'vademecum[{extra}]'"
    assert without(hidden, f"import vademecum.adapters.{adapter}", tmp_path) == f"ImportError: {said}"
    path = str(HERE / "examples" / f"{example}.py")
    told = without(hidden, f"runpy.run_path({path!r}, run_name='__main__')", tmp_path)
    assert told == said


@pytest.mark.full(but=1)
@pytest.mark.parametrize(
    ("extra", "model"),
    [
        ("openai", "openai:gpt"),
        ("anthropic", "anthropic:claude"),
        ("google", "google:gemini"),
        ("ollama", "ollama:llama"),
    ],
)
def test_a_language_model_names_its_extra(extra: str, model: str, tmp_path: Path) -> None:
    code = (
        "import os; os.environ.update(OPENAI_API_KEY='x', ANTHROPIC_API_KEY='x', GEMINI_API_KEY='x')\n"
        "from vademecum.interfaces.cli.app import run\n"
        "run(['add', 'One.', '--key', 'a']); run(['add', 'Two.', '--key', 'a'])\n"
        f"sys.exit(run(['tidy', '--only', 'compact', '--key', 'a', '--model', {model!r}]))"
    )
    said = without(("pydantic_ai",), code, tmp_path)
    assert said.endswith(f"{model} needs a library that is not installed: pip install 'vademecum[{extra}]'")


def test_a_cross_encoder_names_its_extra_and_the_search_answers_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    (tmp_path / "vocab.txt").touch()
    code = (
        f"import os; os.environ['VADE_SEARCH_RERANK'] = {str(tmp_path / 'model.onnx')!r}\n"
        "from vademecum.interfaces.cli.app import run\n"
        "run(['add', 'The heron nests in May.']); run(['add', 'A heron eats frogs.', '--key', 'b'])\n"
        "sys.exit(1 - run(['search', 'heron']))"
    )
    said = without(("onnxruntime",), code, tmp_path)
    assert said == "vade: not reranked: ONNX Runtime is not installed: pip install 'vademecum[rerank]'"


def test_a_chat_without_its_extra_says_what_it_lacks(tmp_path: Path) -> None:
    code = (
        "from vademecum.interfaces.chat import terminal\n"
        "import os; os.environ['TERM'] = 'xterm'; sys.stdin = os.fdopen(os.openpty()[1])\n"
        "print(type(terminal.make_prompt(lambda *_: [], None)).__name__); sys.exit(1)"
    )
    said = without(("prompt_toolkit",), code, tmp_path)
    assert said == "vade: history and completion need prompt-toolkit: pip install 'vademecum[chat]'"


def test_every_extra_that_the_package_declares_is_told_on_its_page() -> None:
    import tomllib

    declared = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (HERE / "docs" / "install.md").read_text()
    assert [
        name for name in declared if name not in {"dev", "docs", "hub-demo"} and f"`{name}`" not in page
    ] == []
