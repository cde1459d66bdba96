"""What `--json` prints, held against the schema of its shape: for every command that any test runs."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import click
import jsonschema
import pytest

from vademecum.interfaces.present import output
from vademecum.interfaces.present.shape import JsonShape, describe
from vademecum.interfaces.present.to_json import OUTPUTS, error_json, postponed_json
from vademecum.text.outgoing import clean_value


def closed(schema: Any) -> Any:
    """The schema, with every object that names its fields allowed no others."""
    if isinstance(schema, dict):
        made = {name: closed(each) for name, each in schema.items()}
        if made.get("type") == "object" and "properties" in made:
            made["additionalProperties"] = False
        return made
    return [closed(each) for each in schema] if isinstance(schema, list) else schema


@cache
def validator(shape: JsonShape) -> jsonschema.Draft202012Validator:
    """What checks an object of a shape; the version is beside it."""
    schema = closed(describe(shape.name, (shape,)))
    return jsonschema.Draft202012Validator({"$defs": schema["$defs"], **schema["allOf"][1]})


def command_of(context: click.Context | None) -> str | None:
    """The words of the command that runs."""
    return None if context is None else context.command_path.partition(" ")[2] or "vade"


def check(shape: JsonShape, made: dict[str, Any]) -> None:
    """Fail when an object is not of its shape, or a command answers in a shape it does not declare."""
    for error in validator(shape).iter_errors(json.loads(json.dumps(clean_value(made)))):
        pytest.fail(f"{shape.name}: {error.message} at {error.json_path}")  # which no command can catch
    command = command_of(click.get_current_context(silent=True))
    allowed = (error_json, postponed_json) if command is None else OUTPUTS[command]
    if shape not in allowed:
        pytest.fail(f"{command} answers with {shape.name}, which OUTPUTS does not say")


def hold() -> None:
    """Check whatever is printed from now on."""
    emit = output.print_json

    def checked(shape: JsonShape, made: dict[str, Any]) -> None:
        check(shape, made)
        emit(shape, made)

    output.print_json = checked
