# SPDX-License-Identifier: Apache-2.0
"""CRI-O's configuration of NRI.

From the source of CRI-O 1.26 to 1.37 (internal/criocli, pkg/config, internal/config/nri): CRI-O
reads the main file, *every* file below the drop-in folder by name, whatever its suffix, and the
command line; later settings replace earlier ones; unknown keys are ignored; CRI-O does not start if
a file cannot be read or parsed.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from .host import Host, option
from .settings import (
    FileProblem,
    Misplaced,
    NriConfig,
    NriKeys,
    TomlFile,
    is_backup,
    misplaced,
    orphans,
    overlay,
    read_toml,
    subtable,
    table_name,
    with_cdi,
)

DEFAULT_CONFIG = "/etc/crio/crio.conf"
DEFAULT_DROP_INS = "/etc/crio/crio.conf.d"
FILES_MAX = 200

_TABLE_PATH = ("crio", "nri")
_KEYS = NriKeys(
    enabled="enable_nri",
    disconnections="nri_disable_connections",
    socket_path="nri_listen",
    plugin_path="nri_plugin_dir",
    plugin_config_path="nri_plugin_config_dir",
    registration_timeout="nri_plugin_registration_timeout",
    request_timeout="nri_plugin_request_timeout",
    # nri_config_file exists only in 1.26.
    others=frozenset({"nri_config_file", "default_validator"}),
)
_DISTINCTIVE = _KEYS.all - {"default_validator"}


def config_paths(arguments: tuple[str, ...]) -> tuple[str, str]:
    """Return the main file and drop-in folder that CRI-O reads with this command line."""
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
    """Read the configuration as CRI-O does with this command line."""
    config = NriConfig(
        "cri-o",
        files=(),
        drop_in=f"{drop_ins}/99-nri.conf",
        enabling="enable_nri = true",
        connecting="nri_disable_connections = false",
        nri_table=table_name(_TABLE_PATH),
    )
    files: list[TomlFile] = []
    problems: list[FileProblem] = []
    misplaced_keys: list[Misplaced] = []
    try:
        files.append(read_toml(host, path))
    except FileNotFoundError:
        config = replace(config, missing=path)
    drop_in_files = list(_walk(host, drop_ins))
    for file_path in drop_in_files:
        try:
            files.append(read_toml(host, file_path))
        except FileNotFoundError:
            text = "CRI-O does not start with this broken link in its drop-in folder"
            problems.append(FileProblem(file_path, text, True, "remove it"))
    for file in files:
        if file.broken:
            text = f"CRI-O does not start with this file: {file.broken}"
            problems.append(
                FileProblem(file.path, text, True, "correct or remove the file", file.changed_at)
            )
        elif file.table and file.path in drop_in_files and is_backup(file.path):
            text = "looks like a backup, but CRI-O reads every file in its drop-in folder"
            fix = f"move it out of {drop_ins}"
            problems.append(FileProblem(file.path, text, False, fix))
        if file.table is not None:
            table = subtable(file.table, *_TABLE_PATH)
            if table:
                config = replace(config, tables=(*config.tables, file.path))
            misplaced_keys += misplaced(file, _TABLE_PATH, _KEYS, lambda path: _DISTINCTIVE)
            config = overlay(with_cdi(config, file), file.path, table, _TABLE_PATH, _KEYS)
    config = replace(
        _command_line(config, arguments),
        files=tuple(file.path for file in files if file.table is not None),
        unreadable=tuple((file.path, file.denied) for file in files if file.denied),
        changed_at=max((file.changed_at for file in files), default=0.0),
        problems=tuple(problems),
        misplaced=tuple(misplaced_keys),
    )
    unread = _unread_files(host, path, drop_ins)
    return replace(
        config, orphans=tuple(orphans(host, config, unread, lambda table: _TABLE_PATH, _KEYS))
    )


def _walk(host: Host, folder: str, depth: int = 0) -> Iterator[str]:
    """Yield files below ``folder`` in the order of Go's filepath.Walk, which does not follow links.

    If ``folder`` itself is a link, it is treated like a file, which cannot be read.
    """
    if depth == 0 and _is_link(host, folder):
        yield folder
        return
    for name in host.readable_names(folder)[:FILES_MAX]:
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


def _is_link(host: Host, path: str) -> bool:
    parent, _, name = path.rstrip("/").rpartition("/")
    try:
        return stat.S_ISLNK(host.resolve(parent).joinpath(name).lstat().st_mode)
    except OSError:
        return False


def _command_line(config: NriConfig, arguments: tuple[str, ...]) -> NriConfig:
    table: dict[str, object] = {}
    for key in _KEYS.all:
        flag = "--" + key.replace("_", "-")
        if key in (_KEYS.enabled, _KEYS.disconnections):
            # A Boolean flag has its value after "="; without a value it is true.
            for argument in arguments:
                if argument == flag or argument.startswith(flag + "="):
                    value = argument.partition("=")[2] or "true"
                    table[key] = value.lower() in ("true", "t", "1")
        elif (flag_value := option(arguments, flag)) is not None:
            table[key] = flag_value
    return overlay(config, "", table, _TABLE_PATH, _KEYS)


def _unread_files(host: Host, path: str, drop_ins: str) -> Iterator[str]:
    """Yield files that CRI-O does not read: next to the main file, and in similar folders."""
    base = str(PurePosixPath(path).parent)
    for folder in (base, f"{base}/conf.d", f"{base}/crio.d", f"{base}/config.d"):
        if folder != drop_ins:
            files = (f"{folder}/{name}" for name in host.readable_names(folder))
            yield from (file for file in files if file != path)
