# SPDX-License-Identifier: Apache-2.0
"""Plugins that a runtime launches, and their configuration files.

From the source of NRI's adaptation package (0.2 to 0.12): a plugin is any file with an executable
bit, or any link, but no folder. One executable whose name is not of the form NN-name makes the
discovery fail, and so the start of the runtime ("Failed to run CRI service" is fatal for
containerd). A plugin that fails to start has the same effect up to NRI 0.6; later versions skip it.
NN-name.conf takes precedence over name.conf. iSulad (by its source, and by a test of its head)
skips files with other names, and launches only plugins with an NN-name.conf, one for each name.
"""

from __future__ import annotations

import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nri_scope.errors import UsageError, reason_of
from nri_scope.nri.identity import ORIGINALS_FOLDER, WASM_MAGIC, parse_plugin_file, plugin_id
from nri_scope.nri.plugin_metrics import PluginMetrics

from .check import Check, Health, fail, ok, unreadable, warn
from .host import Host
from .settings import is_backup
from .sockets import IDENTITY


@dataclass(frozen=True, slots=True)
class PluginFile:
    """Entry of the plugin folder or of the configuration folder."""

    name: str
    mode: int
    """st_mode of the entry itself, not of a link's target."""
    target_mode: int | None
    """st_mode of the final target, if the entry is a link; None for a broken link."""
    size: int
    changed_at: float
    """Time of the last change of the entry or its target, in seconds since the epoch (ctime, so it
    includes rename, link and chmod)."""
    problem: str = ""
    """Why the entry could not be examined; "" if it could."""
    is_wasm: bool = False
    """Whether it is WebAssembly, which NRI 0.9 and later load into the runtime (``isWasm``)."""

    @property
    def is_folder(self) -> bool:
        """Whether the entry is a folder; a link to one is not."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_executable(self) -> bool:
        """Whether a runtime treats the entry as executable, as it does all links."""
        return bool(self.mode & 0o111)


@dataclass(frozen=True, slots=True)
class PluginFolder:
    """Plugin folder and configuration folder of a runtime."""

    path: str
    config_path: str
    plugins: tuple[PluginFile, ...] = ()
    configs: tuple[PluginFile, ...] = ()
    problem: str = ""
    """Why the plugin folder could not be examined; "" if it could."""
    config_problem: str = ""
    mode: int = 0
    """st_mode of the plugin folder; 0 if it does not exist."""


def look_at_plugins(host: Host, path: str, config_path: str) -> PluginFolder:
    """Read both folders; either may be missing."""
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
        return (), reason_of(error)
    return tuple(_entry(host, folder, name) for name in names), ""


def _entry(host: Host, folder: str, name: str) -> PluginFile:
    try:
        status = host.resolve(folder).joinpath(name).lstat()
    except OSError as error:
        return PluginFile(name, 0, None, 0, 0.0, reason_of(error))
    try:
        target = host.status(f"{folder}/{name}")
    except FileNotFoundError:
        return PluginFile(name, status.st_mode, None, status.st_size, status.st_ctime)
    except OSError as error:
        return PluginFile(
            name, status.st_mode, None, status.st_size, status.st_ctime, reason_of(error)
        )
    changed_at = max(status.st_ctime, target.st_ctime)
    is_wasm = host.head(f"{folder}/{name}", len(WASM_MAGIC)) == WASM_MAGIC
    return PluginFile(name, status.st_mode, target.st_mode, target.st_size, changed_at, "", is_wasm)


def check_plugins(
    folder: PluginFolder,
    *,
    runtime: str = "",
    started_at: float | None = None,
    off: bool = False,
) -> list[Check]:
    """Check whether the runtime's launched plugins will start.

    ``started_at`` is the start of the runtime, to find plugins that were added later; ``off`` is
    set if NRI is off.
    """
    if folder.problem:
        return [unreadable("plugins", folder.path, folder.problem)]
    isulad = runtime == "isulad"
    checks = [
        *_folder_mode(folder),
        *(check for file in folder.plugins for check in _plugin(folder, file, started_at, isulad)),
        *_names(folder, isulad),
        *_configs(folder, isulad),
    ]
    names = [plugin.name for plugin in folder.plugins if starts(folder, plugin, isulad)]
    if names and off:
        checks.insert(0, ok("plugins", f"NRI is off: the plugins in {folder.path} are not started"))
    elif names and not any(check.status is Health.FAIL for check in checks):
        listed = ", ".join(_one_of_each(names) if isulad else names)
        checks.insert(0, ok("plugins", f"the runtime starts {listed} in {folder.path}"))
    elif not checks:
        checks.append(ok("plugins", f"{folder.path} has no plugins for the runtime to start"))
    return checks


def _one_of_each(files: Iterable[str]) -> Iterator[str]:
    """Yield the plugins that iSulad starts: of several with one name it starts one."""
    by_name: dict[str, list[str]] = {}
    for file in files:
        by_name.setdefault(file.partition("-")[2], []).append(file)
    for same in by_name.values():
        yield same[0] if len(same) == 1 else f"one of {' and '.join(same)}"


def starts(folder: PluginFolder, plugin: PluginFile, isulad: bool) -> bool:
    """Return whether the runtime starts this plugin, judging by its files."""
    if not _is_plugin(plugin) or next(_start_problem("", plugin), None):
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
        text = f"{folder.path} has mode {stat.S_IMODE(folder.mode):04o}: other users than its "
        text += "owner can add plugins, which run as root"
        yield warn("plugins", text, f"chmod go-w {folder.path}")


def _plugin(
    folder: PluginFolder, plugin: PluginFile, started_at: float | None, isulad: bool
) -> Iterator[Check]:
    path = f"{folder.path}/{plugin.name}"
    is_named = _name_of(plugin.name) is not None
    if plugin.problem:
        yield unreadable("plugin", path, plugin.problem)
        return
    if plugin.is_folder and plugin.name == ORIGINALS_FOLDER:
        yield ok("plugin", f"{path} contains the plugins wrapped by `nri-scope tap --wrap`")
        return
    if plugin.is_folder:
        if is_named:
            yield warn("plugin", f"{path} is a folder, which the runtime skips")
        return
    if not plugin.is_executable:
        if is_named and not is_backup(plugin.name) and not plugin.name.endswith(_DATA):
            text = f"{path} is not executable, so the runtime skips it"
            yield warn("plugin", text, f"chmod +x {path}, if it is a plugin")
        return
    if not is_named:
        if isulad and re.fullmatch("[0-9]{2}", plugin.name):
            text = f"{path}: with a name that is only an index, iSulad aborts at its next start"
            yield fail("plugin", text, f"rename it, for example {plugin.name}-plugin")
        elif isulad:
            text = f"{path} is skipped: its name is not of the form NN-name"
            yield warn("plugin", text, f"rename it, for example 10-{plugin.name}")
        else:
            text = f"{path}: with a name that is not of the form NN-name, no plugin starts, and "
            text += "the runtime itself fails at its next start"
            yield fail("plugin", text, f"rename it, for example 10-{plugin.name}, or move it away")
        return
    if (flaw := next(_start_problem(path, plugin), "")) and isulad:
        yield warn("plugin", flaw, "correct or remove it")
    elif flaw:
        fix = "correct or remove it; up to NRI 0.6, one such plugin prevents all from starting"
        yield fail("plugin", flaw, fix)
    elif (plugin.target_mode or 0) & 0o022:
        text = f"{path} runs as root, and other users than its owner can write to it"
        yield warn("plugin", text, f"chmod go-w {path}")
    if plugin.is_wasm:
        text = f"{path} is WebAssembly, which NRI 0.9 and later run inside the runtime: it has no "
        yield ok("plugin", f"{text}process and no connection, and cannot be recorded or tapped")
    if started_at is not None and plugin.changed_at > started_at + 1:
        text = f"{path} was added or changed after the start of the runtime, which starts plugins "
        text += "only when it starts itself"
        yield warn("plugin", text, "restart the runtime")


_DATA = (".conf", ".json", ".md", ".toml", ".txt", ".yaml", ".yml")


def _start_problem(path: str, plugin: PluginFile) -> Iterator[str]:
    """Yield the reason why a plugin cannot start; nothing if it can."""
    target = plugin.target_mode
    if target is None:
        yield f"{path} is a broken link: it cannot start"
    elif not stat.S_ISREG(target):
        yield f"{path} does not lead to a regular file: it cannot start"
    elif not target & 0o111:
        yield f"{path} leads to a file that is not executable"
    elif plugin.size == 0:
        yield f"{path} is empty: it cannot start"


def _identities(folder: PluginFolder) -> list[tuple[str, str]]:
    identities = (_name_of(plugin.name) for plugin in folder.plugins if _is_plugin(plugin))
    return [identity for identity in identities if identity is not None]


def _names(folder: PluginFolder, isulad: bool) -> Iterator[Check]:
    identities = _identities(folder)
    for name, count in Counter(name for _, name in identities).items():
        if count > 1:
            indices = ", ".join(index for index, other in identities if other == name)
            runs = "one of them runs" if isulad else "all of them run"
            text = f"{name} exists {count} times, with index {indices}: {runs}"
            yield warn("plugin", text, f"keep only one of them in {folder.path}")
    if isulad:
        # iSulad ignores indices.
        return
    for index, count in Counter(index for index, _ in identities).items():
        if count > 1:
            names = ", ".join(name for other, name in identities if other == index)
            text = f"{names} have the same index {index}: their order is undefined"
            yield warn("plugin", text, "give them different indices if the order matters")


def _configs(folder: PluginFolder, isulad: bool) -> Iterator[Check]:
    if folder.config_problem:
        yield unreadable("plugin-config", folder.config_path, folder.config_problem)
        return
    configs = {config.name: config for config in folder.configs}
    used: set[str] = set()
    for identity in _identities(folder):
        full, short = f"{'-'.join(identity)}.conf", f"{identity[1]}.conf"
        names = [full] if isulad else [full, short]
        used.update(names)
        existing = [configs[name] for name in names if name in configs]
        if isulad and not existing:
            text = (
                f"{'-'.join(identity)} is not started: {folder.config_path}/{full} does not exist"
            )
            yield warn("plugin-config", text, "create that file; it may be empty")
        yield from _config_of("-".join(identity), folder, existing)
    for name in configs:
        if name not in used and not is_backup(name):
            text = (
                f"{folder.config_path}/{name} belongs to no plugin in {folder.path} and is not used"
            )
            fix = (
                f"name it NN-name.conf{'' if isulad else ' or name.conf'}, like the plugin's file; "
            )
            fix += "external plugins never get a configuration file"
            yield warn("plugin-config", text, fix)


def _config_of(plugin: str, folder: PluginFolder, configs: list[PluginFile]) -> Iterator[Check]:
    """Check a plugin's configuration files, of which the runtime uses the first."""
    for position, config in enumerate(configs):
        path = f"{folder.config_path}/{config.name}"
        if config.problem:
            yield unreadable("plugin-config", path, config.problem)
        elif config.target_mode is None:
            yield warn("plugin-config", f"{path} is a broken link", "correct or remove it")
            continue
        elif not stat.S_ISREG(config.target_mode):
            text = f"{path} is not a regular file: the runtime cannot read it, and starts no plugin"
            yield fail("plugin-config", text, "move it away")
        for unused in configs[position + 1 :]:
            text = f"{unused.name} is not used for {plugin}: {config.name} takes precedence"
            yield warn("plugin-config", text, f"keep only one of them in {folder.config_path}")
        return


PLUGINS_MAX = 100
"""Maximum number of plugins listed."""


def check_metrics(metrics: PluginMetrics) -> list[Check]:
    """Return a check for each plugin, with its calls since the runtime's start."""
    checks = list(_checks(metrics))
    more = len(checks) - PLUGINS_MAX
    if more > 0:
        checks[PLUGINS_MAX:] = [ok("plugin-metrics", f"and {more:,} more plugins")]
    return checks or [ok("plugin-metrics", "the runtime has called no plugin since its start")]


def _checks(metrics: PluginMetrics) -> Iterator[Check]:
    ours = plugin_id(IDENTITY.index, IDENTITY.name)
    for plugin in sorted({plugin for plugin, _ in metrics} - {ours}):
        counts = [count for (name, _), count in metrics.items() if name == plugin]
        calls, errors = sum(count.calls for count in counts), sum(count.errors for count in counts)
        mean_ms = sum(count.took_ns for count in counts) / max(1, calls) / 1e6
        times = "once" if calls == 1 else f"{calls:,} times"
        text = (
            f"the runtime has called {plugin} {times} since its start, {mean_ms:.3g} ms on average"
        )
        if errors:
            failed = f"{errors:,} of the calls failed or were not answered in time"
            yield warn("plugin-metrics", f"{text}; {failed}", f"see the log of {plugin}")
        else:
            yield ok("plugin-metrics", text)
