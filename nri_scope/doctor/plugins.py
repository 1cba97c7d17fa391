# SPDX-License-Identifier: Apache-2.0
"""The plugins that a runtime starts by itself, and their configuration files.

Facts from NRI's adaptation package (0.2 to 0.12): files with an executable bit count, folders do
not; links count as they are, wherever they lead. One executable with a name that is not NN-name
makes the discovery fail, and with it the start of the whole runtime ("Failed to run CRI service" is
fatal for containerd). A plugin that does not start does the same up to NRI 0.6; from 0.7 on it is
left out. NN-name.conf counts before name.conf.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope.errors import UsageError
from nri_scope.nri.identity import KEPT_FOLDER, parse_plugin_file

from .check import Check, fail, ok, unknown, warn
from .host import Host, words


@dataclass(frozen=True, slots=True)
class PluginFile:
    """An entry of the plugin folder or of the configuration folder."""

    name: str
    mode: int
    """st_mode of the entry itself, not of what a link leads to."""
    target_mode: int | None
    """st_mode of what is really there; None for a link to nothing."""
    size: int
    changed_at: float
    """Seconds since the epoch, when this entry was last changed (renamed, linked, chmod too)."""

    @property
    def is_folder(self) -> bool:
        """A folder; a link to one is none."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_executable(self) -> bool:
        """Counts as executable for a runtime; a link always does."""
        return bool(self.mode & 0o111)


@dataclass(frozen=True, slots=True)
class PluginFolder:
    """Plugin folder and configuration folder of a runtime."""

    path: str
    config_path: str
    plugins: tuple[PluginFile, ...] = ()
    configs: tuple[PluginFile, ...] = ()
    problem: str = ""
    """Why the plugin folder could not be looked at."""
    config_problem: str = ""
    mode: int = 0
    """st_mode of the plugin folder, 0 if there is none."""


def look_at_plugins(host: Host, path: str, config_path: str) -> PluginFolder:
    """Look into both folders; neither has to exist."""
    plugins, problem = _entries(host, path)
    configs, config_problem = _entries(host, config_path)
    try:
        mode = host.status(path).st_mode
    except OSError:
        mode = 0
    return PluginFolder(path, config_path, plugins, configs, problem, config_problem, mode)


def _entries(host: Host, folder: str) -> tuple[tuple[PluginFile, ...], str]:
    try:
        names = host.names(folder)
    except FileNotFoundError:
        return (), ""
    except OSError as error:
        return (), words(error)
    return tuple(_entry(host, folder, name) for name in names), ""


def _entry(host: Host, folder: str, name: str) -> PluginFile:
    try:
        status = host.resolve(folder).joinpath(name).lstat()
    except OSError:
        return PluginFile(name, 0, None, 0, 0.0)
    try:
        target = host.status(f"{folder}/{name}")
    except OSError:
        return PluginFile(name, status.st_mode, None, status.st_size, status.st_ctime)
    changed_at = max(status.st_ctime, target.st_ctime)
    return PluginFile(name, status.st_mode, target.st_mode, target.st_size, changed_at)


def check_plugins(
    folder: PluginFolder, *, started_at: float | None = None, one_stops_all: bool = True
) -> list[Check]:
    """Whether the runtime's own plugins will start.

    ``started_at`` is when the runtime started, for plugins that came later; ``one_stops_all`` is
    False for iSulad, which leaves out what it does not understand.
    """
    if folder.problem:
        fix = "run doctor as root" if folder.problem == "permission denied" else ""
        return [unknown("plugins", f"{folder.path}: {folder.problem}", fix)]
    checks = [
        *_folder_mode(folder),
        *(c for p in folder.plugins for c in _plugin(folder, p, started_at, one_stops_all)),
        *_names(folder),
        *_configs(folder),
    ]
    names = [plugin.name for plugin in folder.plugins if _is_plugin(plugin)]
    if names:
        checks.insert(0, ok("plugins", f"the runtime starts {', '.join(names)} of {folder.path}"))
    elif not checks:
        checks.append(ok("plugins", f"no plugins in {folder.path}: the runtime starts none"))
    return checks


def _is_plugin(plugin: PluginFile) -> bool:
    return not plugin.is_folder and plugin.is_executable and _name_of(plugin.name) is not None


def _name_of(file_name: str) -> tuple[str, str] | None:
    try:
        return parse_plugin_file(file_name)
    except UsageError:
        return None


def _folder_mode(folder: PluginFolder) -> Iterator[Check]:
    if folder.mode & 0o022 and not folder.mode & stat.S_ISVTX:
        text = f"{folder.path} has mode {stat.S_IMODE(folder.mode):04o}: others than its owner "
        text += "can put plugins there, which run as root"
        yield warn("plugins", text, f"chmod go-w {folder.path}")


def _plugin(
    folder: PluginFolder, plugin: PluginFile, started_at: float | None, one_stops_all: bool
) -> Iterator[Check]:
    path = f"{folder.path}/{plugin.name}"
    named = _name_of(plugin.name) is not None
    if plugin.is_folder and plugin.name == KEPT_FOLDER:
        yield ok("plugin", f"{path} has the plugins that `nri-scope tap --wrap` records")
        return
    if plugin.is_folder:
        yield warn("plugin", f"{path} is a folder; the runtime does not look into it")
        return
    if not plugin.is_executable:
        if named:
            text = f"{path} is not executable: the runtime passes it over"
            yield warn("plugin", text, f"chmod +x {path}")
        return
    if not named:
        if one_stops_all:
            text = f"{path}: one name that is not NN-name keeps all plugins from starting, and "
            text += "the runtime itself when it starts next"
            yield fail("plugin", text, f"rename it, for example 10-{plugin.name}, or move it away")
        else:
            text = f"{path} is passed over: its name is not NN-name"
            yield warn("plugin", text, f"rename it, for example 10-{plugin.name}")
        return
    yield from _target(path, plugin)
    if started_at is not None and plugin.changed_at > started_at + 1:
        text = f"{path} came or changed after the runtime had started: it runs what was there then"
        yield warn("plugin", text, "restart the runtime")


def _target(path: str, plugin: PluginFile) -> Iterator[Check]:
    fix = "correct or remove it; up to NRI 0.6 one plugin that does not start stops all"
    target = plugin.target_mode
    if target is None:
        yield fail("plugin", f"{path} is a link to nothing: it cannot start", fix)
    elif not stat.S_ISREG(target):
        yield fail("plugin", f"{path} leads to something that is no file: it cannot start", fix)
    elif not target & 0o111:
        yield fail("plugin", f"{path} leads to a file that is not executable", fix)
    elif plugin.size == 0:
        yield fail("plugin", f"{path} is empty: it cannot start", fix)
    elif target & 0o022:
        text = f"{path} can be written by others than its owner, and runs as root"
        yield warn("plugin", text, f"chmod go-w {path}")


def _names(folder: PluginFolder) -> Iterator[Check]:
    known = [_name_of(plugin.name) for plugin in folder.plugins if _is_plugin(plugin)]
    identities = [identity for identity in known if identity is not None]
    for name, count in Counter(name for _, name in identities).items():
        if count > 1:
            indices = ", ".join(index for index, other in identities if other == name)
            text = f"{name} is there {count} times, with index {indices}: all of them run"
            yield warn("plugin", text, f"keep one of them in {folder.path}")
    for index, count in Counter(index for index, _ in identities).items():
        if count > 1:
            names = ", ".join(name for other, name in identities if other == index)
            text = f"{names} have the same index {index}: which goes first is left to chance"
            yield warn("plugin", text, "give them different indices if the order matters")


def _configs(folder: PluginFolder) -> Iterator[Check]:
    if folder.config_problem:
        fix = "run doctor as root" if folder.config_problem == "permission denied" else ""
        yield unknown("plugin-config", f"{folder.config_path}: {folder.config_problem}", fix)
    identities = [_name_of(plugin.name) for plugin in folder.plugins if _is_plugin(plugin)]
    wanted = {
        f"{stem}.conf"
        for identity in identities
        if identity is not None
        for stem in ("-".join(identity), identity[1])
    }
    there = {config.name for config in folder.configs}
    for config in folder.configs:
        path = f"{folder.config_path}/{config.name}"
        if config.name not in wanted:
            text = f"{path} belongs to no plugin in {folder.path}: nobody reads it"
            fix = "name it NN-name.conf or name.conf after the plugin's file; a plugin that "
            fix += "connects from outside never gets a file from here"
            yield warn("plugin-config", text, fix)
        elif config.target_mode is None:
            text = f"{path} is a link to nothing: the plugin gets an empty configuration"
            yield warn("plugin-config", text, "correct or remove it")
        elif not stat.S_ISREG(config.target_mode):
            text = f"{path} is no file: the runtime cannot read it, and starts no plugin at all"
            yield fail("plugin-config", text, "move it away")
    for identity in identities:
        if identity is None:
            continue
        full, short = f"{'-'.join(identity)}.conf", f"{identity[1]}.conf"
        if {full, short} <= there:
            text = f"{short} does not count for {'-'.join(identity)}: there is {full} too"
            yield warn("plugin-config", text, f"keep one of them in {folder.config_path}")
