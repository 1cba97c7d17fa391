# SPDX-License-Identifier: Apache-2.0
"""containerd's configuration of NRI.

Facts from containerd 1.7 to 2.4 (services/server/config, cmd/containerd/server/config, NRI's
config.go): one table for NRI in every version of the file; imports are read after the file that
names them, and the last file counts; a missing import keeps containerd from starting, a pattern
without match does not; unknown keys are ignored.
"""

from __future__ import annotations

import fnmatch
import re
from collections import deque
from dataclasses import replace
from pathlib import PurePosixPath

from .host import Host
from .processes import option
from .settings import Misplaced, NriConfig, Problem, Setting, Table, TomlFile, read_toml, subtable
from .toml_keys import NriKeys, misplaced, orphans, overlay

DEFAULT_CONFIG = "/etc/containerd/config.toml"
NRI_PLUGIN = "io.containerd.nri.v1.nri"
FILES_MAX = 100

_KEYS = NriKeys(
    enabled="disable",
    enabled_is_negated=True,
    disconnections="disable_connections",
    socket_path="socket_path",
    plugin_path="plugin_path",
    plugin_config_path="plugin_config_path",
    registration_timeout="plugin_registration_timeout",
    request_timeout="plugin_request_timeout",
    others=frozenset({"default_validator"}),
)
# These keys are NRI's in any table; the others have a meaning in tables of other plugins.
_DISTINCTIVE = frozenset(
    {
        "disable_connections",
        "plugin_config_path",
        "plugin_registration_timeout",
        "plugin_request_timeout",
    }
)
_NRI_WORD = re.compile(r"(^|\.)nri(\.|$)")


def config_path(arguments: tuple[str, ...]) -> str:
    """Return the configuration file that a containerd with this command line reads."""
    return option(arguments, "--config", "-c") or DEFAULT_CONFIG


def read_containerd(host: Host, path: str = DEFAULT_CONFIG, major: int = 2) -> NriConfig:
    """Read ``path`` and its imports, as containerd ``major``.x would."""
    files: list[TomlFile] = []
    problems: list[Problem] = []
    missing = ""
    seen = set()
    pending = deque([(path, path)])
    while pending and len(files) < FILES_MAX:
        file_path, importer = pending.popleft()
        if file_path in seen:
            continue
        seen.add(file_path)
        try:
            file = read_toml(host, file_path)
        except FileNotFoundError:
            if file_path == path:
                missing = path
            else:
                text = f"it imports {file_path}, which does not exist: containerd does not start"
                fix = "create that file or drop the import"
                problems.append(Problem(importer, text, True, fix))
            continue
        files.append(file)
        if file.broken:
            text = f"containerd does not start with it: {file.broken}"
            problems.append(Problem(file_path, text, True, "correct the file", file.changed_at))
        pending.extend((item, file_path) for item in _imports(host, file))

    config = NriConfig(
        "containerd",
        files=tuple(file.path for file in files if file.table is not None),
        missing=missing,
        unreadable=tuple((file.path, file.denied) for file in files if file.denied),
        changed_at=max((file.changed_at for file in files), default=0.0),
        enable_key=f'disable = false in [plugins."{NRI_PLUGIN}"]',
        connections_key=f'disable_connections = false in [plugins."{NRI_PLUGIN}"]',
    )
    found: list[Misplaced] = []
    for file in files:
        if file.table is not None:
            right = _right_place(file.table, major)
            table = subtable(file.table, *right)
            found += misplaced(file, right, _KEYS, _telling)
            # 1.x takes a plugin's whole table from a later file, 2.x key by key.
            config = overlay(config, file.path, table, right, _KEYS, replaces=major < 2)
            config = _disabled_plugin(config, file, right[-1])
    beside = _beside(host, path, seen)
    return replace(
        config,
        problems=tuple(problems),
        misplaced=tuple(found),
        orphans=tuple(
            orphans(host, config, beside, lambda table: _right_place(table, major), _KEYS)
        ),
    )


def _right_place(table: Table, major: int) -> tuple[str, str]:
    # A file without version is of version 1, where 1.x named plugins by their bare id. 2.x
    # migrates such a file and leaves names with a dot as they are.
    version = table.get("version", 1)
    return ("plugins", "nri" if version == 1 and major < 2 else NRI_PLUGIN)


def _imports(host: Host, file: TomlFile) -> list[str]:
    """Return the imports of ``file``: relative to its folder, with ``*`` for matching names."""
    wanted = (file.table or {}).get("imports", [])
    found: list[str] = []
    for item in wanted if isinstance(wanted, list) else []:
        if not isinstance(item, str) or not item:
            continue
        path = str(PurePosixPath(file.path).parent / item)
        found += _glob(host, path) if "*" in path else [path]
    return found[:FILES_MAX]


def _glob(host: Host, pattern: str) -> list[str]:
    """Return matches of a pattern with wildcards only in its last component, as in all known
    use.
    """
    folder, name = str(PurePosixPath(pattern).parent), PurePosixPath(pattern).name
    try:
        names = host.names(folder)
    except OSError:
        return []
    # Unlike a shell, Go lets * match a leading dot.
    return [f"{folder}/{entry}" for entry in names if fnmatch.fnmatchcase(entry, name)]


def _disabled_plugin(config: NriConfig, file: TomlFile, name: str) -> NriConfig:
    disabled = (file.table or {}).get("disabled_plugins", [])
    if isinstance(disabled, list) and name in disabled:
        return replace(config, enabled=Setting(False, file.path, "disabled_plugins"))
    return config


def _telling(path: tuple[str, ...]) -> frozenset[str]:
    return _KEYS.all if path and _NRI_WORD.search(path[-1]) else _DISTINCTIVE


def _beside(host: Host, path: str, read: set[str]) -> list[str]:
    """Return the files in the usual folder of imports that are not imported."""
    folder = f"{PurePosixPath(path).parent}/conf.d"
    try:
        names = host.names(folder)
    except OSError:
        return []
    return [file for file in (f"{folder}/{name}" for name in names) if file not in read]
