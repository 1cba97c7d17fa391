# SPDX-License-Identifier: Apache-2.0
"""iSulad's configuration of NRI, keys in the top level of its JSON file, and its defects.

The keys were tried with a built iSulad and have hyphens; its documentation has underscores. NRI is
off by default, and the socket's path cannot be configured. The defects are those of a built iSulad
2.1.6.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from nri_scope.errors import reason_of

from .check import Check, warn
from .host import Host
from .settings import FileProblem, Misplaced, NriConfig, Setting, Table

DEFAULT_CONFIG = "/etc/isulad/daemon.json"
_KEYS = (
    "nri-support",
    "disable-connections",
    "plugin-path",
    "plugin-config-path",
    "plugin-registration-timeout",
    # The misspelt key is the one that worked in a built iSulad; newer sources spell it right.
    "plugin-request-timeout",
    "plugin-requst-timeout",
)
_TRY = "try each plugin with `nri-scope replay FILE --profile isulad` first"

DEFECTS = (
    (
        "iSulad 2.1 aborts on a reply to CreateContainer without `adjust`, even an empty one, and "
        "crashes on any update of a container that a plugin requests",
        f"{_TRY}; nri-scope itself sends neither",
    ),
    (
        "iSulad 2.1 crashes on any UpdateContainerResources request of the CRI, with or without "
        "plugins",
        "do not let the kubelet resize containers, and set its CPU manager policy to none",
    ),
    (
        "iSulad 2.1 calls external plugins in random order, whatever their index, and sends each "
        "the container as requested, without the adjustments of the others",
        "use plugins that do not depend on each other; `nri-scope tap` shows what one requests",
    ),
    (
        "iSulad 2.1 fails a creation in which a plugin sets an environment variable, or the CPU "
        "without both cpus and mems; ignores args, the cgroups path, the OOM score and pids; and "
        "swaps soft and hard rlimits",
        _TRY,
    ),
)
"""Defects with remedies, which concern plugins that work with other runtimes."""


def known_defects() -> list[Check]:
    """Return a warning for each of iSulad's defects that plugins meet."""
    return [warn("isulad-defects", text, fix) for text, fix in DEFECTS]


def read_isulad(host: Host, path: str = DEFAULT_CONFIG) -> NriConfig:
    """Read iSulad's configuration, in which timeouts are numbers of seconds."""
    config = NriConfig(
        "isulad",
        files=(),
        enabling='"nri-support": true',
        connecting='"disable-connections": false',
    )
    try:
        changed_at = host.status(path).st_mtime
        content = host.read(path)
    except FileNotFoundError:
        return replace(config, missing=path)
    except PermissionError as error:
        return replace(config, unreadable=((path, reason_of(error)),))
    except OSError as error:
        return replace(config, problems=(FileProblem(path, reason_of(error), True, "correct it"),))
    try:
        table = json.loads(content)
        if not isinstance(table, dict):
            raise ValueError("it is not a JSON object")
    except (ValueError, RecursionError) as error:
        problem = FileProblem(
            path, f"iSulad does not start with this file: {error}", True, "correct the file"
        )
        return replace(config, problems=(problem,), changed_at=changed_at)

    def setting(*keys: str, negated: bool = False) -> Setting | None:
        for key in keys:
            if key in table:
                value = table[key]
                if negated and isinstance(value, bool):
                    value = not value
                return Setting(value, path, f'"{key}"')
        return None

    return replace(
        config,
        files=(path,),
        tables=(path,),
        misplaced=_misplaced(path, table),
        changed_at=changed_at,
        enabled=setting("nri-support"),
        connections=setting("disable-connections", negated=True),
        plugin_path=setting("plugin-path"),
        plugin_config_path=setting("plugin-config-path"),
        registration_timeout=setting("plugin-registration-timeout"),
        request_timeout=setting("plugin-request-timeout", "plugin-requst-timeout"),
    )


def _misplaced(path: str, table: Table) -> tuple[Misplaced, ...]:
    """Return keys without effect: NRI's keys with underscores, and unknown keys of NRI."""
    spellings = {key.replace("-", "_"): key for key in _KEYS}
    misspelt = (
        Misplaced(path, "the top level", f'"{key}"', f'"{spellings[key]}", with hyphens')
        for key in table
        if key in spellings
    )
    # Its own settings are at the top level, too: those of NRI have its name, or that of the socket.
    unknown = (
        Misplaced(path, "the top level", f'"{key}"', "")
        for key in table
        if re.match("nri[-_]|socket[-_]path$", key) and key.replace("_", "-") not in _KEYS
    )
    return (*misspelt, *unknown)
