# SPDX-License-Identifier: Apache-2.0
"""The plugins that a runtime starts itself, and their configuration files.

Facts from NRI's adaptation package (0.2 to 0.12): files with an executable bit count, folders do
not; links count regardless of their targets. A single executable whose name is not of the form
NN-name makes the discovery fail, and so the start of the whole runtime ("Failed to run CRI service"
is fatal for containerd). A plugin that does not start has the same effect up to NRI 0.6; from 0.7
on it is skipped. NN-name.conf takes precedence over name.conf. iSulad (by its code, and by a test
of its head) skips entries that it does not understand, and starts only plugins with an
NN-name.conf, one of each name.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope.errors import UsageError
from nri_scope.nri.identity import ORIGINALS_FOLDER, parse_plugin_file

from .check import Check, Status, fail, ok, unknown, warn
from .host import Host, words
from .settings import is_backup


@dataclass(frozen=True, slots=True)
class PluginFile:
    """An entry of the plugin folder or of the configuration folder."""

    name: str
    mode: int
    """st_mode of the entry itself, not of a link's target."""
    target_mode: int | None
    """st_mode of the link's final target; None for a broken link."""
    size: int
    changed_at: float
    """Time of the last change of this entry (even rename, link, chmod), in seconds since the
    epoch."""
    problem: str = ""
    """Why it could not be examined."""

    @property
    def is_folder(self) -> bool:
        """Whether the entry is a folder; a link to one is not."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_executable(self) -> bool:
        """Whether the entry is executable for a runtime; a link always is."""
        return bool(self.mode & 0o111)


@dataclass(frozen=True, slots=True)
class PluginFolder:
    """Plugin folder and configuration folder of a runtime."""

    path: str
    config_path: str
    plugins: tuple[PluginFile, ...] = ()
    configs: tuple[PluginFile, ...] = ()
    problem: str = ""
    """Why the plugin folder could not be examined."""
    config_problem: str = ""
    mode: int = 0
    """st_mode of the plugin folder, 0 if there is none."""


def look_at_plugins(host: Host, path: str, config_path: str) -> PluginFolder:
    """Read both folders; neither has to exist."""
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
    except OSError as error:
        return PluginFile(name, 0, None, 0, 0.0, words(error))
    try:
        target = host.status(f"{folder}/{name}")
    except FileNotFoundError:
        return PluginFile(name, status.st_mode, None, status.st_size, status.st_ctime)
    except OSError as error:
        return PluginFile(name, status.st_mode, None, status.st_size, status.st_ctime, words(error))
    changed_at = max(status.st_ctime, target.st_ctime)
    return PluginFile(name, status.st_mode, target.st_mode, target.st_size, changed_at)


def check_plugins(
    folder: PluginFolder,
    *,
    runtime: str = "",
    started_at: float | None = None,
    off: bool = False,
) -> list[Check]:
    """Check whether the runtime's own plugins will start.

    ``started_at``: when the runtime started, to find plugins added later; ``off``: whether its
    configuration switches NRI off.
    """
    if folder.problem:
        fix = "run doctor as root" if folder.problem == "permission denied" else ""
        return [unknown("plugins", f"{folder.path}: {folder.problem}", fix)]
    isulad = runtime == "isulad"
    checks = [
        *_folder_mode(folder),
        *(c for p in folder.plugins for c in _plugin(folder, p, started_at, isulad)),
        *_names(folder, isulad),
        *_configs(folder, isulad),
    ]
    names = [plugin.name for plugin in folder.plugins if _starts(folder, plugin, isulad)]
    if names and off:
        checks.insert(0, ok("plugins", f"NRI is off: no plugin in {folder.path} is started"))
    elif names and not any(check.status is Status.FAIL for check in checks):
        checks.insert(0, ok("plugins", f"the runtime starts {', '.join(names)} of {folder.path}"))
    elif not checks:
        checks.append(ok("plugins", f"no plugins in {folder.path}: the runtime starts none"))
    return checks


def _starts(folder: PluginFolder, plugin: PluginFile, isulad: bool) -> bool:
    """Return whether the runtime starts this plugin, as far as its files show."""
    if not _is_plugin(plugin) or next(_target("", plugin), None):
        return False
    return not isulad or f"{plugin.name}.conf" in {config.name for config in folder.configs}


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
    folder: PluginFolder, plugin: PluginFile, started_at: float | None, isulad: bool
) -> Iterator[Check]:
    path = f"{folder.path}/{plugin.name}"
    named = _name_of(plugin.name) is not None
    if plugin.problem:
        yield unknown("plugin", f"{path}: {plugin.problem}", "run doctor as root")
        return
    if plugin.is_folder and plugin.name == ORIGINALS_FOLDER:
        yield ok("plugin", f"{path} has the plugins that `nri-scope tap --wrap` records")
        return
    if plugin.is_folder:
        if named:
            yield warn("plugin", f"{path} is a folder; the runtime does not look into it")
        return
    if not plugin.is_executable:
        if named and not is_backup(plugin.name) and not plugin.name.endswith(_DATA):
            text = f"{path} is not executable: the runtime passes it over"
            yield warn("plugin", text, f"chmod +x {path}, if it is to run")
        return
    if not named:
        if isulad:
            text = f"{path} is passed over: its name is not NN-name"
            yield warn("plugin", text, f"rename it, for example 10-{plugin.name}")
        else:
            text = f"{path}: one name that is not NN-name keeps all plugins from starting, and "
            text += "the runtime itself when it starts next"
            yield fail("plugin", text, f"rename it, for example 10-{plugin.name}, or move it away")
        return
    if (flaw := next(_target(path, plugin), "")) and isulad:
        yield warn("plugin", flaw, "correct or remove it")
    elif flaw:
        fix = "correct or remove it; up to NRI 0.6 one plugin that does not start stops all"
        yield fail("plugin", flaw, fix)
    elif (plugin.target_mode or 0) & 0o022:
        text = f"{path} can be written by others than its owner, and runs as root"
        yield warn("plugin", text, f"chmod go-w {path}")
    if started_at is not None and plugin.changed_at > started_at + 1:
        text = f"{path} came or changed after the runtime had started, which starts plugins only "
        text += "when it starts itself"
        yield warn("plugin", text, "restart the runtime")


_DATA = (".conf", ".json", ".md", ".toml", ".txt", ".yaml", ".yml")


def _target(path: str, plugin: PluginFile) -> Iterator[str]:
    """Yield the reason why a plugin cannot start, if there is one."""
    target = plugin.target_mode
    if target is None:
        yield f"{path} is a link to nothing: it cannot start"
    elif not stat.S_ISREG(target):
        yield f"{path} leads to something that is no file: it cannot start"
    elif not target & 0o111:
        yield f"{path} leads to a file that is not executable"
    elif plugin.size == 0:
        yield f"{path} is empty: it cannot start"


def _identities(folder: PluginFolder) -> list[tuple[str, str]]:
    known = (_name_of(plugin.name) for plugin in folder.plugins if _is_plugin(plugin))
    return [identity for identity in known if identity is not None]


def _names(folder: PluginFolder, isulad: bool) -> Iterator[Check]:
    identities = _identities(folder)
    for name, count in Counter(name for _, name in identities).items():
        if count > 1:
            indices = ", ".join(index for index, other in identities if other == name)
            runs = "one of them runs" if isulad else "all of them run"
            text = f"{name} is there {count} times, with index {indices}: {runs}"
            yield warn("plugin", text, f"keep one of them in {folder.path}")
    if isulad:
        # iSulad asks plugins in its own order, regardless of their indices.
        return
    for index, count in Counter(index for index, _ in identities).items():
        if count > 1:
            names = ", ".join(name for other, name in identities if other == index)
            text = f"{names} have the same index {index}: which goes first is left to chance"
            yield warn("plugin", text, "give them different indices if the order matters")


def _configs(folder: PluginFolder, isulad: bool) -> Iterator[Check]:
    if folder.config_problem:
        fix = "run doctor as root" if folder.config_problem == "permission denied" else ""
        yield unknown("plugin-config", f"{folder.config_path}: {folder.config_problem}", fix)
        return
    configs = {config.name: config for config in folder.configs}
    wanted: set[str] = set()
    for identity in _identities(folder):
        full, short = f"{'-'.join(identity)}.conf", f"{identity[1]}.conf"
        names = [full] if isulad else [full, short]
        wanted.update(names)
        there = [configs[name] for name in names if name in configs]
        if isulad and not there:
            text = f"{'-'.join(identity)} is not started: there is no {folder.config_path}/{full}"
            yield warn("plugin-config", text, "create that file; it may be empty")
        yield from _config_of("-".join(identity), folder, there)
    for name in configs:
        if name not in wanted and not is_backup(name):
            text = f"{folder.config_path}/{name} belongs to no plugin in {folder.path}: the "
            text += "runtime gives it to none"
            fix = f"name it NN-name.conf{'' if isulad else ' or name.conf'} after the plugin's "
            fix += "file; a plugin that connects from outside never gets a file from here"
            yield warn("plugin-config", text, fix)


def _config_of(plugin: str, folder: PluginFolder, there: list[PluginFile]) -> Iterator[Check]:
    """Judge a plugin's configuration files; the first one that exists counts."""
    for position, config in enumerate(there):
        path = f"{folder.config_path}/{config.name}"
        if config.problem:
            yield unknown("plugin-config", f"{path}: {config.problem}", "run doctor as root")
        elif config.target_mode is None:
            yield warn("plugin-config", f"{path} is a link to nothing", "correct or remove it")
            continue
        elif not stat.S_ISREG(config.target_mode):
            text = f"{path} is no file: the runtime cannot read it, and starts no plugin at all"
            yield fail("plugin-config", text, "move it away")
        for other in there[position + 1 :]:
            text = f"{other.name} does not count for {plugin}: there is {config.name} too"
            yield warn("plugin-config", text, f"keep one of them in {folder.config_path}")
        return
