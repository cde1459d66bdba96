"""Write the variables of all agents to `agents/environment.json`, which every command reads.

python -m tools.agent_environment            writes it
python -m tools.agent_environment --check    fails when what is there is not what would be written
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec

from vademecum import agents
from vademecum.agents import registry
from vademecum.agents.environment import PATH
from vademecum.agents.other_agents import OTHER_AGENTS


def rendered() -> str:
    """The file as it should be."""
    shipped = [each for each in registry.known() if find_spec(f"{agents.__name__}.{_module(each.name)}")]
    known = [*(each.environment for each in shipped if each.environment), *OTHER_AGENTS]
    variables = {
        "agents": {name: each.title for each in known for name in each.agent},
        "editors": {name: each.title for each in known for name in each.editor},
    }
    return json.dumps(variables, indent=1) + "\n"


def _module(agent: str) -> str:
    return agent.replace("-", "_")


def main() -> None:
    """Write the file, or with `--check` only compare it."""
    if "--check" not in sys.argv[1:]:
        PATH.write_text(rendered(), "utf-8")
    elif PATH.read_text("utf-8") != rendered():
        sys.exit("agents/environment.json is not that of the agents: run `python -m tools.agent_environment`")


if __name__ == "__main__":
    main()
