"""Change single settings in the user's own `config.toml`, and keep the rest of the file as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum import config
from vademecum.errors import ConfigError, VadeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.config import Setting
    from vademecum.memory.core import Memory


def find_setting(name: str) -> Setting:
    """Return the setting with this name; raise ConfigError, with the most similar name, if there is none."""
    found = config.SETTINGS.get(name)
    if name in config.REMOVED_SETTINGS:
        raise ConfigError(config.explain_removed(name))
    if found is None:
        raise ConfigError(f"there is no setting {name}{config.meant(name)}", hint="`vade config` lists all")
    return found


def write_setting(memory: Memory, each: Setting, value: str | None) -> None:
    """Set one setting, or remove it from the file; for a person only."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    memory.workspace.may_decide("change a setting", "vade config set")
    plain: Any = None
    if value is not None:
        try:
            plain = each.kind.plain(value)
            each.kind.parse(plain)
        except ValueError as error:
            raise ConfigError(f"{each.name} must be {each.kind.wanted}, not {value!r}") from error

    def change(now: bytes | None) -> bytes:
        try:
            document = tomlkit.parse((now or b"").decode())
        except (TOMLKitError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"your config.toml cannot be read: {error}", hint="`vade config edit`"
            ) from error
        *sections, last = each.name.split(".")
        table: Any = document
        for section in sections:
            if section not in table:
                if value is None:
                    return now or b""
                table[section] = tomlkit.table()
            table = table[section]
        if value is None:
            table.pop(last, None)
        else:
            table[last] = plain
        return tomlkit.dumps(document).encode()

    write_file(memory, change)


def write_file(memory: Memory, change: Callable[[bytes | None], bytes]) -> None:
    """Replace the file by what `change` makes of its content."""
    try:
        with memory.home.lock("config"), memory.home.disk(create=True) as folder:
            folder.update(config.FILE_NAME, change, mode=0o600)
    except OSError as error:
        raise VadeError(
            f"config.toml cannot be written: {error.strerror}", hint="check its folder"
        ) from error
