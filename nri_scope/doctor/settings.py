# SPDX-License-Identifier: Apache-2.0
"""NRI configuration of a runtime, in the same form for all runtimes.

The second half is about TOML files, where each runtime has its own keys.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nri_scope.errors import reason_of
from nri_scope.nri.events import DEFAULT_PLUGIN_CONFIG_PATH, DEFAULT_PLUGIN_PATH
from nri_scope.nri.versions import runtime_title

from .host import Host

Table = Mapping[str, object]

NESTING_MAX = 20


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, with the place where it is set."""

    value: object
    file: str
    """The file that sets it; "" for the runtime's command line."""
    key: str
    """The key as written in the file."""
    table: str = ""
    """Its table, as `table_name` writes it; "" for a key in no table."""

    @property
    def is_argument(self) -> bool:
        """Whether the runtime's command line makes the setting."""
        return not self.file

    @property
    def origin(self) -> str:
        """The file that sets it, or ``the command line``."""
        return self.file or "the command line"


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Error in a configuration file."""

    file: str
    text: str
    fatal: bool
    """Whether the runtime does not start because of it."""
    fix: str
    changed_at: float = 0.0
    """Modification time of a file that our parser rejects; 0 for other problems."""


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Key in a place where the runtime ignores it."""

    file: str
    table: str
    key: str
    right: str
    """The right table; "" for an unknown key."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """File with NRI settings that the runtime does not read."""

    file: str
    table: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NriConfig:
    """NRI configuration of one runtime; None for settings that are not made."""

    runtime: str
    """``containerd``, ``cri-o`` or ``isulad``."""
    files: tuple[str, ...]
    """The files that were read, in order of increasing precedence."""
    missing: str = ""
    """The main file's path, if it does not exist."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Files that could not be read, with the reason; their settings are unknown."""
    problems: tuple[FileProblem, ...] = ()
    misplaced: tuple[Misplaced, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    changed_at: float = 0.0
    """Newest modification time among ``files``, in seconds since the epoch."""
    enabled: Setting | None = None
    connections: Setting | None = None
    """Whether external plugins may connect."""
    socket_path: Setting | None = None
    plugin_path: Setting | None = None
    plugin_config_path: Setting | None = None
    registration_timeout: Setting | None = None
    """The value as written: a Go duration, or iSulad's number of seconds."""
    request_timeout: Setting | None = None
    cdi: Mapping[str, Setting] = field(default_factory=dict)
    """Settings of CDI by key, of those in `_CDI_KEYS`."""
    enabling: str = ""
    """The line that enables NRI, for a fix."""
    connecting: str = ""
    """The line that lets external plugins connect."""
    nri_table: str = ""
    """The table with these lines, as `table_name` writes it; "" for iSulad's JSON object."""
    tables: tuple[str, ...] = ()
    """The files that have a table with NRI settings, or that are such a table."""
    drop_in: str = ""
    """A file for additional settings, if the runtime reads a folder of them."""


def path_of(setting: Setting | None, default: str) -> str:
    """Return the path in ``setting``, or ``default``: runtimes treat an empty path as not set."""
    value = setting.value if setting else None
    return value if isinstance(value, str) and value else default


def plugin_folders(config: NriConfig) -> tuple[str, str]:
    """Return the folders of plugins and of their configuration files."""
    configs = path_of(config.plugin_config_path, DEFAULT_PLUGIN_CONFIG_PATH)
    return path_of(config.plugin_path, DEFAULT_PLUGIN_PATH), configs


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A TOML file as far as it could be read."""

    path: str
    table: dict[str, object] | None
    changed_at: float = 0.0
    denied: str = ""
    """Why the file could not be read; "" if it could."""
    broken: str = ""
    """Why the file is not valid TOML; "" if it is."""


def read_toml(host: Host, path: str) -> TomlFile:
    """Read one file. Raises FileNotFoundError only."""
    try:
        changed_at = host.status(path).st_mtime
        content = host.read(path)
    except FileNotFoundError:
        raise
    except PermissionError as error:
        return TomlFile(path, None, denied=reason_of(error))
    except OSError as error:
        return TomlFile(path, None, broken=reason_of(error))
    try:
        return TomlFile(path, tomllib.loads(content.decode()), changed_at)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        return TomlFile(path, None, changed_at, broken=str(error) or "nested too deeply")


def subtable(table: Table, *path: str) -> dict[str, object]:
    """Return the table at ``path``; empty if there is none."""
    value: object = table
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def tables(table: Table, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Table]]:
    """Yield every table in ``table``, itself included, with its path."""
    yield path, table
    if len(path) < NESTING_MAX:
        for name, value in table.items():
            if isinstance(value, dict):
                yield from tables(value, (*path, name))


def table_name(path: tuple[str, ...]) -> str:
    """Return a table's heading as written in TOML."""
    parts = (key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key}"' for key in path)
    return f"[{'.'.join(parts)}]" if path else "the top level"


def is_backup(path: str) -> bool:
    """Return whether a file name is that of a backup by an editor or a package manager."""
    return _BACKUP.search(path.rpartition("/")[2]) is not None


_BACKUP = re.compile(
    r"~$|^#.*#$|^\.|\.(bak|old|orig|save|saved|disabled|off|swp|tmp|rpmnew|rpmsave|rpmorig|"
    r"dpkg-(old|new|dist|tmp)|ucf-(old|dist))$",
    re.IGNORECASE,
)


TablePath = tuple[str, ...]


_FIELDS = (
    *("enabled", "socket_path", "plugin_path", "plugin_config_path"),
    *("registration_timeout", "request_timeout"),
)
"""Settings that have the same name in `NriConfig` and `NriKeys`."""


_CDI_KEYS = {"enable_cdi", "cdi_spec_dirs"}


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


@dataclass(slots=True)
class TomlSettings:
    """The NRI configuration in TOML files, which are read in order of increasing precedence."""

    host: Host
    config: NriConfig
    keys: NriKeys
    path_in: Callable[[Table], TablePath]
    """Returns the path of NRI's table in a file."""
    nri_keys_in: Callable[[TablePath], frozenset[str]]
    """Returns the keys that can only be NRI's in the table at a path."""
    replaces: bool = False
    """Whether a file's table replaces that of earlier files, instead of single settings."""

    def read(self, path: str, fix: str) -> TomlFile:
        """Read one file. Raises FileNotFoundError only. ``fix``: what to do if it is not TOML."""
        file, config = read_toml(self.host, path), self.config
        self.config = replace(config, changed_at=max(config.changed_at, file.changed_at))
        if file.denied:
            self._append(unreadable=(path, file.denied))
        if file.broken:
            text = f"{runtime_title(config.runtime)} does not start with this file: {file.broken}"
            self.add_problem(FileProblem(path, text, True, fix, file.changed_at))
        if file.table is not None:
            self._append(files=path)
            self._read_table(path, file.table)
        return file

    def add_problem(self, problem: FileProblem) -> None:
        """Add an error in a file."""
        self._append(problems=problem)

    def overlay(
        self, file: str, table: Table, path: TablePath = (), *, replaces: bool = False
    ) -> NriConfig:
        """Return the configuration overridden by an NRI table, which is at ``path`` in ``file``.

        Settings missing in ``table`` are unchanged, or unset if it ``replaces`` earlier tables. An
        empty table changes nothing. ``file``: see `Setting`.
        """
        config, keys = self.config, self.keys
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
            return Setting(value, file, key, table_name(path))

        values: dict[str, Any] = {
            name: setting(getattr(keys, name), getattr(config, name)) for name in _FIELDS
        }
        values["enabled"] = setting(keys.enabled, config.enabled, negated=keys.enabled_is_negated)
        connections = setting(keys.disconnections, config.connections, negated=True)
        return replace(config, **values, connections=connections)

    def add_orphans(self, paths: Iterable[str]) -> NriConfig:
        """Return the configuration with those of other files whose settings are not read.

        Backups, files with other suffixes, and files that would change nothing are skipped.
        """
        for path in paths:
            if not path.endswith((".conf", ".toml")) or is_backup(path):
                continue
            try:
                content = read_toml(self.host, path).table or {}
            except FileNotFoundError:
                continue
            table_path = self.path_in(content)
            table = subtable(content, *table_path)
            keys = tuple(key for key in table if key.lower() in self.keys.all)
            if keys and _values(self.overlay(path, table, table_path)) != _values(self.config):
                self._append(orphans=Orphan(path, table_name(table_path), keys))
        return self.config

    def _read_table(self, file: str, content: Table) -> None:
        right = self.path_in(content)
        for path, table in tables(content):
            # The keys of CDI are the same in each version's table.
            for key in sorted(_CDI_KEYS & table.keys()):
                setting = Setting(table[key], file, key, table_name(path))
                self.config = replace(self.config, cdi={**self.config.cdi, key: setting})
            for key in table:
                if path == right and key.lower() not in self.keys.all:
                    self._append(misplaced=Misplaced(file, table_name(right), key, ""))
                if path[: len(right)] != right and key in self.nri_keys_in(path):
                    wrong = table_name(path)
                    self._append(misplaced=Misplaced(file, wrong, key, table_name(right)))
        if own := subtable(content, *right):
            self._append(tables=file)
            self.config = self.overlay(file, own, right, replaces=self.replaces)

    def _append(self, **values: object) -> None:
        lists: dict[str, Any] = {
            name: (*getattr(self.config, name), new) for name, new in values.items()
        }
        self.config = replace(self.config, **lists)


def _values(config: NriConfig) -> list[object]:
    settings = (getattr(config, name) for name in (*_FIELDS, "connections"))
    return [setting.value if setting is not None else None for setting in settings]
