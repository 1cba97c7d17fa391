# SPDX-License-Identifier: Apache-2.0
"""containerd's configuration of NRI.

From the source of containerd 1.7 to 2.4 (services/server/config, cmd/containerd/server/config,
NRI's config.go): the file has one table for NRI, in all its versions; imported files are read after
the importing file, and the last setting counts; containerd does not start if an import is missing,
but a pattern may match no file; unknown keys are ignored.
"""

from __future__ import annotations

import fnmatch
import re
from collections import deque
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from .host import Host, option
from .settings import (
    FileProblem,
    NriConfig,
    NriKeys,
    Setting,
    Table,
    TomlFile,
    TomlSettings,
    table_name,
)

DEFAULT_CONFIG = "/etc/containerd/config.toml"
NRI_PLUGIN = "io.containerd.nri.v1.nri"
_CRI_PLUGINS = frozenset({"cri", "io.containerd.grpc.v1.cri"})
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
# Keys that belong to NRI in any table; other plugins' tables may have the rest.
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
    """Return the configuration file that containerd reads with this command line."""
    return option(arguments, "--config", "-c") or DEFAULT_CONFIG


def read_containerd(host: Host, path: str = DEFAULT_CONFIG, major: int = 2) -> NriConfig:
    """Read ``path`` and its imports, as containerd ``major``.x would."""
    config = NriConfig(
        "containerd",
        files=(),
        enabling="disable = false",
        connecting="disable_connections = false",
        nri_table=f'[plugins."{NRI_PLUGIN}"]',
    )
    # A later file replaces the whole table of a plugin in 1.x, single keys in 2.x.
    path_in = partial(_nri_table_path, major=major)
    settings = TomlSettings(host, config, _KEYS, path_in, _nri_keys_in, replaces=major < 2)
    files: list[TomlFile] = []
    read_paths = set()
    pending = deque([(path, path)])
    while pending and len(files) < FILES_MAX:
        file_path, importer = pending.popleft()
        if file_path in read_paths:
            continue
        read_paths.add(file_path)
        try:
            file = settings.read(file_path, "correct the file")
        except FileNotFoundError:
            if file_path == path:
                settings.config = replace(config, missing=path)
            else:
                text = f"containerd does not start: the imported file {file_path} does not exist"
                fix = "create that file or remove the import"
                settings.add_problem(FileProblem(importer, text, True, fix))
            continue
        files.append(file)
        settings.config = _disabled_plugin(settings.config, file, path_in(file.table or {})[-1])
        pending.extend((item, file_path) for item in _imports(host, file))
    if files and files[0].table is not None:
        table = table_name(path_in(files[0].table))
        settings.config = replace(settings.config, nri_table=table)
    return settings.add_orphans(_unread_files(host, path, read_paths))


def _nri_table_path(table: Table, major: int) -> tuple[str, str]:
    # A file without version has version 1, in which 1.x uses the short names of plugins. 2.x
    # migrates such a file, and keeps names that have a dot.
    version = table.get("version", 1)
    return ("plugins", "nri" if version == 1 and major < 2 else NRI_PLUGIN)


def _imports(host: Host, file: TomlFile) -> list[str]:
    """Return the files that ``file`` imports; paths are relative to its folder."""
    imports = (file.table or {}).get("imports", [])
    paths: list[str] = []
    for item in imports if isinstance(imports, list) else []:
        if not isinstance(item, str) or not item:
            continue
        path = str(PurePosixPath(file.path).parent / item)
        paths += _glob(host, path) if "*" in path else [path]
    return paths[:FILES_MAX]


def _glob(host: Host, pattern: str) -> list[str]:
    """Return the files that match ``pattern``, which has wildcards only in its last component."""
    folder, name = str(PurePosixPath(pattern).parent), PurePosixPath(pattern).name
    names = host.readable_names(folder)
    # Unlike in a shell, * matches a leading dot in Go.
    return [f"{folder}/{entry}" for entry in names if fnmatch.fnmatchcase(entry, name)]


def _disabled_plugin(config: NriConfig, file: TomlFile, name: str) -> NriConfig:
    disabled = (file.table or {}).get("disabled_plugins", [])
    if isinstance(disabled, list) and name in disabled:
        return replace(config, enabled=Setting(False, file.path, "disabled_plugins"))
    if isinstance(disabled, list) and not _CRI_PLUGINS.isdisjoint(disabled):
        # NRI is a part of the CRI service.
        return replace(config, enabled=Setting(False, file.path, "CRI in disabled_plugins"))
    return config


def _nri_keys_in(path: tuple[str, ...]) -> frozenset[str]:
    return _KEYS.all if path and _NRI_WORD.search(path[-1]) else _DISTINCTIVE


def _unread_files(host: Host, path: str, read: set[str]) -> list[str]:
    """Return the files in conf.d, the usual folder for imports, that are not imported."""
    folder = f"{PurePosixPath(path).parent}/conf.d"
    files = (f"{folder}/{name}" for name in host.readable_names(folder))
    return [file for file in files if file not in read]
