# SPDX-License-Identifier: Apache-2.0
"""iSulad's configuration of NRI: keys in the top level of its JSON file.

The keys were tried with a built iSulad and have hyphens; its documentation has underscores. NRI is
off by default, and the socket's path cannot be configured.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from nri_scope.errors import reason_of

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


def read_isulad(host: Host) -> NriConfig:
    """Read iSulad's configuration, in which timeouts are numbers of seconds."""
    path = DEFAULT_CONFIG
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
