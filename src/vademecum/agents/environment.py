"""Reader of the variables that agents set; the agents are not loaded, because every command needs this."""

from __future__ import annotations

import json
from pathlib import Path

from vademecum.store.people import AgentVariables

PATH = Path(__file__).with_name("environment.json")


def read_variables() -> AgentVariables:
    """Return the variables of all agents from the file that `python -m tools.agent_environment` writes."""
    return AgentVariables(**json.loads(PATH.read_text("utf-8")))
