# SPDX-License-Identifier: Apache-2.0
"""NRI settings in TOML files, where each runtime has its own keys."""

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
"""Settings that have the same name in `NriConfig` and `NriKeys`."""


@dataclass(frozen=True, slots=True)
class NriKeys:
    """One runtime's keys for the settings of `NriConfig`."""

    enabled: str
    disconnections: str
    """Key for the negation of ``connections``."""
    socket_path: str
    plugin_path: str
    plugin_config_path: str
    registration_timeout: str
    request_timeout: str
    enabled_is_negated: bool = False
    """Whether the key `enabled` disables NRI when true."""
    others: frozenset[str] = frozenset()
    """Other valid keys in the table."""

    @property
    def all(self) -> frozenset[str]:
        """All valid keys in NRI's table."""
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
    """Return ``config`` overridden by an NRI table, which is at ``path`` in the file ``origin``.

    Settings missing in ``table`` are unchanged, or unset if it ``replaces`` earlier tables. An
    empty table changes nothing.
    """
    if not table:
        return config
    # The Go packages that parse these files ignore the case of keys.
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
    nri_keys_in: Callable[[TablePath], frozenset[str]],
) -> list[Misplaced]:
    """Return keys without effect: unknown keys in the table at ``right``, NRI's keys elsewhere.

    ``nri_keys_in`` returns the keys that can only be NRI's in the table at a path.
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
                if key in nri_keys_in(path)
            ]
    return found


def orphans(
    host: Host,
    config: NriConfig,
    paths: Iterable[str],
    right: Callable[[Table], TablePath],
    keys: NriKeys,
) -> Iterator[Orphan]:
    """Yield files of ``paths`` whose NRI settings the runtime does not read.

    Backups, files with other suffixes, and files that would change nothing in ``config`` are
    skipped.
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
