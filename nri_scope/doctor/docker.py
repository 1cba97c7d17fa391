# SPDX-License-Identifier: Apache-2.0
"""Docker Engine's configuration of NRI: ``nri-opts``, in daemon.json or on the command line.

From moby's source (v2.0.0-beta.24: ``daemon/internal/nri``, ``daemon/pkg/opts/nri_opts.go``), and
tried with a built dockerd: it does not start with an unknown key in ``nri-opts``. NRI is off by
default, and external plugins may connect only if a socket is named.
"""

from __future__ import annotations

import json
from dataclasses import replace

from nri_scope.errors import reason_of
from nri_scope.nri.events import DEFAULT_SOCKET

from .host import Host, RuntimeProcess, environment, option
from .settings import FileProblem, NriConfig, Setting, Table

_OPTIONS = "nri-opts"
_KEYS = frozenset({"enable", "socket-path", "plugin-path", "plugin-config-path"})


def read_docker(host: Host, process: RuntimeProcess) -> NriConfig:
    """Read the configuration of a dockerd, which may have a mount namespace of its own."""
    variables = environment(host, process.pid)
    host = host.below(process.root)
    folders = "/etc/docker", "/usr/libexec/docker"
    if variables.get("ROOTLESSKIT_STATE_DIR"):
        home = variables.get("HOME", "")
        config_home = variables.get("XDG_CONFIG_HOME") or f"{home}/.config"
        folders = f"{config_home}/docker", f"{home}/.local/libexec/docker"
    path = process.path(option(process.arguments, "--config-file") or f"{folders[0]}/daemon.json")
    line = json.dumps({_OPTIONS: {"enable": True, "socket-path": DEFAULT_SOCKET}})[1:-1]
    config = NriConfig("docker", files=(), enabling=line, connecting=line)
    options, origin = _arguments(process.arguments), ""
    try:
        changed_at = host.status(path).st_mtime
        table = json.loads(host.read(path))
        own = table.get(_OPTIONS, {}) if isinstance(table, dict) else None
        if not isinstance(own, dict):
            raise ValueError("it is not a JSON object")
        if unknown := own.keys() - _KEYS:
            raise ValueError(f'unknown key "{min(unknown)}" in "{_OPTIONS}"')
        config = replace(config, files=(path,), tables=(path,), changed_at=changed_at)
        if _OPTIONS in table:
            options, origin = own, path
    except FileNotFoundError:
        config = replace(config, missing=path)
    except PermissionError as error:
        config = replace(config, unreadable=((path, reason_of(error)),))
    except (OSError, ValueError, RecursionError) as error:
        why = reason_of(error) if isinstance(error, OSError) else str(error)
        problem = FileProblem(path, f"Docker Engine does not start: {why}", True, "correct it")
        config = replace(config, problems=(problem,))

    def setting(key: str, default: str = "") -> Setting | None:
        value = options.get(key) or default
        return Setting(value, origin, f'"{key}" of "{_OPTIONS}"') if value else None

    enabled = options.get("enable")
    connections = Setting(
        bool(options.get("socket-path")), origin, f'"socket-path" of "{_OPTIONS}"'
    )
    return replace(
        config,
        enabled=None if enabled is None else Setting(enabled, origin, f'"enable" of "{_OPTIONS}"'),
        connections=connections if enabled is True else None,
        socket_path=setting("socket-path"),
        plugin_path=setting("plugin-path", f"{folders[1]}/nri-plugins"),
        plugin_config_path=setting("plugin-config-path", f"{folders[0]}/nri/conf.d"),
    )


def _arguments(arguments: tuple[str, ...]) -> Table:
    """Return the options on the command line; with them, dockerd refuses others in its file."""
    options: dict[str, object] = {}
    for field in (option(arguments, f"--{_OPTIONS}") or "").split(","):
        key, _, value = field.partition("=")
        options |= {key: value} if key else {}
    if "enable" in options:
        options["enable"] = options["enable"] in ("", "1", "t", "T", "true", "TRUE", "True")
    return options
