"""Write the JSON Schema of what each command answers with `--json`, and the API's, to `docs/schemas/`.

python tools/schemas.py            writes them
python tools/schemas.py --check    fails when what is there is not what would be written
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from vademecum.interfaces.http.api.schema import describe_api
from vademecum.interfaces.present.shape import describe
from vademecum.interfaces.present.to_json import OUTPUTS

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"


def schemas() -> dict[str, str]:
    """Every file by its name, as it should be."""
    api = json.dumps(describe_api(), indent=1, ensure_ascii=False)
    made = {"openapi.json": f"{api}\n"}
    for command, shapes in OUTPUTS.items():
        title = {"vade": "vade", "error": "What any command answers when it did not do what was asked"}.get(
            command, f"vade {command}"
        )
        text = json.dumps(describe(title, shapes), indent=2, ensure_ascii=False)
        made[f"{command.replace(' ', '-')}.json"] = f"{text}\n"
    return made


def stale(folder: Path = FOLDER) -> list[str]:
    """The files that are missing, too many, or not as they should be."""
    wanted = schemas()
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main() -> None:
    """Write, or with `--check` only look."""
    found = stale()
    if "--check" in sys.argv[1:]:
        for name in found:
            print(f"docs/schemas/{name} is not up to date: run `python tools/schemas.py`")
        raise SystemExit(1 if found else 0)
    FOLDER.mkdir(exist_ok=True)
    wanted = schemas()
    for name in found:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    print(f"{len(found)} of {len(wanted)} schemas written")


if __name__ == "__main__":
    main()
