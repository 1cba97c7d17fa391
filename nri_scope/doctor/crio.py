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
    NriConfig,
    NriKeys,
    Table,
    TomlSettings,
    is_backup,
    table_name,
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
    settings = TomlSettings(
        host, config, _KEYS, lambda table: _TABLE_PATH, lambda path: _DISTINCTIVE
    )
    fix = "correct or remove the file"
    try:
        settings.read(path, fix)
    except FileNotFoundError:
        settings.config = replace(config, missing=path)
    for file_path in _walk(host, drop_ins):
        try:
            file = settings.read(file_path, fix)
        except FileNotFoundError:
            text = "CRI-O does not start with this broken link in its drop-in folder"
            settings.add_problem(FileProblem(file_path, text, True, "remove it"))
            continue
        if file.table and is_backup(file_path):
            text = "looks like a backup, but CRI-O reads every file in its drop-in folder"
            move = f"move it out of {drop_ins}"
            settings.add_problem(FileProblem(file_path, text, False, move))
    settings.config = settings.overlay("", _command_line(arguments), _TABLE_PATH)
    return settings.add_orphans(_unread_files(host, path, drop_ins))


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


def _command_line(arguments: tuple[str, ...]) -> Table:
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
    return table


def _unread_files(host: Host, path: str, drop_ins: str) -> Iterator[str]:
    """Yield files that CRI-O does not read: next to the main file, and in similar folders."""
    base = str(PurePosixPath(path).parent)
    for folder in (base, f"{base}/conf.d", f"{base}/crio.d", f"{base}/config.d"):
        if folder != drop_ins:
            files = (f"{folder}/{name}" for name in host.readable_names(folder))
            yield from (file for file in files if file != path)
