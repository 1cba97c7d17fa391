# SPDX-License-Identifier: Apache-2.0
"""NRI's settings in the runtimes' TOML files, in which each runtime uses its own keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from .host import Host
from .settings import (
    Misplaced,
    NriConfig,
    Orphan,
    Setting,
    Table,
    TomlFile,
    is_backup,
    read_toml,
    subtable,
    table_name,
    tables,
)

TablePath = tuple[str, ...]


_FIELDS = (
    *("enabled", "socket_path", "plugin_path", "plugin_config_path"),
    *("registration_timeout", "request_timeout"),
)
"""Settings of `NriConfig` whose key in `NriKeys` has the same name."""


@dataclass(frozen=True, slots=True)
class NriKeys:
    """A runtime's keys for the settings of `NriConfig`."""

    enabled: str
    disconnections: str
    """The opposite of ``connections``."""
    socket_path: str
    plugin_path: str
    plugin_config_path: str
    registration_timeout: str
    request_timeout: str
    enabled_is_negated: bool = False
    """Whether the key switches NRI off rather than on."""
    others: frozenset[str] = frozenset()
    """Valid keys that do not concern NRI."""

    @property
    def all(self) -> frozenset[str]:
        """Every key that the runtime knows in NRI's table."""
        return self.others | {getattr(self, name) for name in (*_FIELDS, "disconnections")}


def overlay(
    config: NriConfig,
    origin: str,
    table: Table,
    path: TablePath,
    keys: NriKeys,
    *,
    replaces: bool = False,
) -> NriConfig:
    """Return ``config`` with the NRI table at ``path`` of ``origin`` laid over it.

    Settings missing in ``table`` stay as they were, unless it ``replaces`` earlier tables as a
    whole. An empty table changes nothing.
    """
    if not table:
        return config
    # The Go packages that read these files accept keys in any case.
    table = {key.lower(): value for key, value in table.items()} | dict(table)

    def setting(key: str, before: Setting | None, *, negated: bool = False) -> Setting | None:
        if key not in table:
            return None if replaces else before
        value = table[key]
        if negated and isinstance(value, bool):
            value = not value
        return Setting(value, origin, f"{key} in {table_name(path)}")

    return replace(
        config,
        enabled=setting(keys.enabled, config.enabled, negated=keys.enabled_is_negated),
        connections=setting(keys.disconnections, config.connections, negated=True),
        socket_path=setting(keys.socket_path, config.socket_path),
        plugin_path=setting(keys.plugin_path, config.plugin_path),
        plugin_config_path=setting(keys.plugin_config_path, config.plugin_config_path),
        registration_timeout=setting(keys.registration_timeout, config.registration_timeout),
        request_timeout=setting(keys.request_timeout, config.request_timeout),
    )


def misplaced(
    file: TomlFile,
    right: TablePath,
    keys: NriKeys,
    telling: Callable[[TablePath], frozenset[str]],
) -> list[Misplaced]:
    """Return keys without effect: unknown ones in NRI's table at ``right``, and NRI's elsewhere.

    ``telling`` returns the keys that are NRI's even in the table at a given path.
    """
    found: list[Misplaced] = []
    right_name = table_name(right)
    for path, table in tables(file.table or {}):
        if path == right:
            found += [
                Misplaced(file.path, right_name, key, "")
                for key in table
                if key.lower() not in keys.all
            ]
        elif path[: len(right)] != right:
            found += [
                Misplaced(file.path, table_name(path), key, right_name)
                for key in table
                if key in telling(path)
            ]
    return found


def orphans(
    host: Host,
    config: NriConfig,
    paths: Iterable[str],
    right: Callable[[Table], TablePath],
    keys: NriKeys,
) -> Iterator[Orphan]:
    """Yield the files among ``paths`` that look like a part of ``config`` in the wrong place.

    Such a file has a name and a table like a real part, and NRI settings that have no effect.
    Backups, and copies that would change nothing, are not reported.
    """
    for path in paths:
        if not path.endswith((".conf", ".toml")) or is_backup(path):
            continue
        try:
            file = read_toml(host, path)
        except FileNotFoundError:
            continue
        place = right(file.table or {})
        table = subtable(file.table or {}, *place)
        known = tuple(key for key in table if key.lower() in keys.all)
        if known and _values(overlay(config, path, table, place, keys)) != _values(config):
            yield Orphan(path, table_name(place), known)


def _values(config: NriConfig) -> list[object]:
    settings = (getattr(config, name) for name in (*_FIELDS, "connections"))
    return [setting.value if setting is not None else None for setting in settings]
