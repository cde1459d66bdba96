"""Commands that look for what is wrong with a memory, and mend what can be mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common, scope_option
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_json import lint_json, outcome_json, place_of
from vademecum.interfaces.present.to_text import show_lint, show_outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.memory import Memory
    from vademecum.types import Finding

    Door = Callable[[], Memory]

FORMATS = click.Choice(["text", "json", "github"])
_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


@click.command()
@scope_option("Only this scope.")
@click.option("--format", "form", type=FORMATS, default="text", show_default=True, help="How to print it.")
@click.option(
    "--seconds", type=click.FloatRange(0.1, 3600), default=30.0, show_default=True, help="How long to look."
)
@click.option("--llm", is_flag=True, help="Ask the model of the settings about contradictions, too.")
@click.option("--model", metavar="NAME", help="Ask this model about contradictions, too.")
@common
def lint(
    *, scope: str | None, form: str, seconds: float, llm: bool, model: str | None, as_json: bool, door: Door
) -> int:
    """Look for what is wrong, and change nothing; ends with 1 when there are errors."""
    found = door().lint(scope=scope, seconds=seconds, model=model or llm)
    if as_json or form == "json":
        output.as_json(lint_json(found))
    elif form == "github":
        for finding in found:
            output.line(annotation(finding))
    else:
        show_lint(found)
    return int(any(finding.severity == "error" for finding in found))


@click.command()
@scope_option("Only this scope.")
@click.option("--apply", is_flag=True, help="Do it; without, it is only told.")
@click.option("--aggressive", is_flag=True, help="Also set counters back that look driven up.")
@common
def heal(scope: str | None, apply: bool, aggressive: bool, as_json: bool, door: Door) -> int:
    """Mend what lint finds, where that takes no person; no text is removed, `vade undo` takes it back."""
    outcome = door().heal(scope=scope, apply=apply, aggressive=aggressive)
    if as_json:
        output.as_json(outcome_json(outcome, applied=apply))
    else:
        show_outcome(outcome, applied=apply, command="vade heal")
    return int(any(not each.done for each in outcome.told))


def annotation(finding: Finding) -> str:
    """One finding as a line that a workflow shows beside the code."""
    path, first, last = place_of(finding)
    where = f"file={_property(path)}" + (f",line={first},endLine={last}" if first else "")
    said = f"{finding.why}. Mend: {finding.mend}" if finding.mend else finding.why
    return f"::{_LEVELS[finding.severity]} {where},title={_property(finding.what)}::{_message(said)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


COMMANDS = {"lint": lint, "heal": heal}
