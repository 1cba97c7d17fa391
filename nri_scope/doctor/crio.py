# SPDX-License-Identifier: Apache-2.0
"""CRI-O's configuration of NRI.

Facts from CRI-O 1.26 to 1.37 (internal/criocli, pkg/config, internal/config/nri): the main file,
then *every* file below the drop-in folder in the order of their names, whatever their suffix, then
the command line; what a file sets replaces what earlier ones set; unknown keys are ignored; a file
that cannot be read or parsed keeps CRI-O from starting.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from .host import Host
from .processes import option
from .settings import (
    Misplaced,
    NriConfig,
    Problem,
    Setting,
    Table,
    TomlFile,
    read_toml,
    speaks_of_nri,
    subtable,
    table_name,
    tables,
)

DEFAULT_CONFIG = "/etc/crio/crio.conf"
DEFAULT_DROP_INS = "/etc/crio/crio.conf.d"
FILES_MAX = 200

_RIGHT = ("crio", "nri")
_KEYS = frozenset(
    {
        "enable_nri",
        "nri_listen",
        "nri_plugin_dir",
        "nri_plugin_config_dir",
        "nri_plugin_registration_timeout",
        "nri_plugin_request_timeout",
        "nri_disable_connections",
        "nri_config_file",  # 1.26 only
        "default_validator",
    }
)
_BACKUP = re.compile(
    r"~$|^#.*#$|^\.|\.(bak|old|orig|save|saved|disabled|off|swp|tmp|rpmnew|rpmsave|rpmorig|"
    r"dpkg-(old|new|dist|tmp)|ucf-(old|dist))$",
    re.IGNORECASE,
)


def config_paths(arguments: tuple[str, ...]) -> tuple[str, str]:
    """Main file and drop-in folder of a CRI-O with this command line."""
    return (
        option(arguments, "--config", "-c") or DEFAULT_CONFIG,
        option(arguments, "--config-dir", "-d") or DEFAULT_DROP_INS,
    )


def read_crio(
    host: Host,
    path: str = DEFAULT_CONFIG,
    drop_ins: str = DEFAULT_DROP_INS,
    arguments: tuple[str, ...] = (),
) -> NriConfig:
    """Read CRI-O's configuration as a CRI-O with this command line does."""
    config = NriConfig(
        "cri-o",
        files=(),
        enable_key="enable_nri = true in [crio.nri]",
        connections_key="nri_disable_connections = false in [crio.nri]",
    )
    files: list[TomlFile] = []
    problems: list[Problem] = []
    misplaced: list[Misplaced] = []
    try:
        files.append(read_toml(host, path))
    except FileNotFoundError:
        config = replace(config, missing=path)
    dropped = list(_walk(host, drop_ins))
    for file_path in dropped:
        try:
            files.append(read_toml(host, file_path))
        except FileNotFoundError:
            text = "CRI-O does not start with this link to nothing among its drop-ins"
            problems.append(Problem(file_path, text, True, "remove it"))
    for file in files:
        if file.broken:
            text = f"CRI-O does not start with it: {file.broken}"
            problems.append(Problem(file.path, text, True, "correct or remove the file"))
        elif file.path in dropped and _BACKUP.search(PurePosixPath(file.path).name):
            text = "looks like a backup, but CRI-O reads every file in its drop-in folder"
            fix = f"move it out of {drop_ins}"
            problems.append(Problem(file.path, text, False, fix))
        if file.table is not None:
            misplaced += _misplaced(file)
            config = _overlay(config, file.path, subtable(file.table, *_RIGHT))
    return replace(
        _command_line(config, arguments),
        files=tuple(file.path for file in files if file.table is not None),
        unreadable=tuple((file.path, file.denied) for file in files if file.denied),
        changed_at=max((file.changed_at for file in files), default=0.0),
        problems=tuple(problems),
        misplaced=tuple(misplaced),
        orphans=_orphans(host, path, drop_ins),
    )


def _walk(host: Host, folder: str, depth: int = 0) -> Iterator[str]:
    """Files below ``folder`` in the order of Go's filepath.Walk, which follows no links."""
    try:
        names = host.names(folder)
    except OSError:
        return
    for name in names[:FILES_MAX]:
        path = f"{folder}/{name}"
        try:
            mode = host.resolve(folder).joinpath(name).lstat().st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            if depth < 8:
                yield from _walk(host, path, depth + 1)
        else:
            yield path


def _overlay(config: NriConfig, file: str, table: Table) -> NriConfig:
    def setting(key: str, before: Setting | None, *, negated: bool = False) -> Setting | None:
        if key not in table:
            return before
        value = table[key]
        if negated and isinstance(value, bool):
            value = not value
        return Setting(value, file, f"{key} in {table_name(_RIGHT)}")

    return replace(
        config,
        enabled=setting("enable_nri", config.enabled),
        connections=setting("nri_disable_connections", config.connections, negated=True),
        socket_path=setting("nri_listen", config.socket_path),
        plugin_path=setting("nri_plugin_dir", config.plugin_path),
        plugin_config_path=setting("nri_plugin_config_dir", config.plugin_config_path),
        registration_timeout=setting(
            "nri_plugin_registration_timeout", config.registration_timeout
        ),
        request_timeout=setting("nri_plugin_request_timeout", config.request_timeout),
    )


def _command_line(config: NriConfig, arguments: tuple[str, ...]) -> NriConfig:
    table: dict[str, object] = {}
    for key in _KEYS:
        flag = "--" + key.replace("_", "-")
        if key in ("enable_nri", "nri_disable_connections"):
            # A flag of this kind has its value after "=" or none, which means true.
            for argument in arguments:
                if argument == flag or argument.startswith(flag + "="):
                    value = argument.partition("=")[2] or "true"
                    table[key] = value.lower() in ("true", "t", "1")
        elif (value_given := option(arguments, flag)) is not None:
            table[key] = value_given
    return _overlay(config, "the command line", table)


def _misplaced(file: TomlFile) -> list[Misplaced]:
    found = []
    right_name = table_name(_RIGHT)
    for path, table in tables(file.table or {}):
        if path == _RIGHT:
            found += [
                Misplaced(file.path, right_name, key, "") for key in table if key not in _KEYS
            ]
        elif path[: len(_RIGHT)] != _RIGHT:
            found += [
                Misplaced(file.path, table_name(path), key, right_name)
                for key in table
                if key in _KEYS and key != "default_validator"
            ]
    return found


def _orphans(host: Host, path: str, drop_ins: str) -> tuple[str, ...]:
    """Files about NRI beside the main file or in folders that look like the drop-in folder."""
    base = str(PurePosixPath(path).parent)
    found = []
    for folder in (base, f"{base}/conf.d", f"{base}/crio.d", f"{base}/config.d"):
        if folder == drop_ins:
            continue
        try:
            names = host.names(folder)
        except OSError:
            continue
        found += [
            file
            for file in (f"{folder}/{name}" for name in names)
            if file != path and speaks_of_nri(host, file)
        ]
    return tuple(found)
