"""What the protocol's suite found of the real server, counted: passed, not to be asked of it, or a fault.

`python conformance_count.py FOLDER…` reads the results of runs. The suite wants tools, prompts and resources
of its own, methods that are optional and an extension; whatever else fails is a fault, and the exit code 1.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

FIXTURE = re.compile(
    r"Unknown tool: |there is no prompt test_|there is no resource test://|^Tool '\w+' not found"
    r"|^Not testable: |^Prerequisite failed: could not get initial|^Expected InputRequiredResult with "
)
# Methods that a server may leave out, and this one does not announce.
OPTIONAL = (
    *("completion-complete", "logging-set-level", "resources-subscribe", "resources-unsubscribe"),
    "tools-call-with-logging",
)
EXTENSION = "server-tasks-"


def kind_of(scenario: str, check: dict[str, str]) -> str:
    """How one check ended."""
    status, why = check.get("status", ""), check.get("errorMessage") or ""
    if status != "FAILURE":
        return "passed" if status == "SUCCESS" else "other"
    if scenario.startswith(EXTENSION):
        return "extension"
    if FIXTURE.search(why.removeprefix("Failed: ").removeprefix("JSON-RPC error: ")):
        return "fixture"
    optional = "Method not found" in why and scenario.removeprefix("server-").startswith(OPTIONAL)
    return "optional" if optional else "fault"


def main(folders: list[str]) -> int:
    """Count, tell, and fail on a fault."""
    found: Counter[str] = Counter()
    for path in (each for folder in folders for each in sorted(Path(folder).rglob("checks.json"))):
        for check in json.loads(path.read_text("utf-8")):
            kind = kind_of(path.parent.name, check)
            found[kind] += 1
            if kind == "fault":
                print(f"✗ {path.parent.name}: {check.get('id')}: {check.get('errorMessage')}")
    print(
        f"{found['passed']} checks passed; not to be asked of it: {found['fixture']} want tools, prompts or"
        f" resources of the suite, {found['optional']} methods that are not announced, {found['extension']}"
        f" the tasks extension; {found['fault']} faults"
    )
    return 1 if found["fault"] or not found["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
