# SPDX-License-Identifier: Apache-2.0
"""iSulad's configuration of NRI: keys in the top level of its JSON file.

The keys were tried with a built iSulad and have hyphens; its documentation has underscores. NRI is
off by default, and the socket's path cannot be configured.
"""

from __future__ import annotations

import json
from dataclasses import replace

from .host import Host, words
from .settings import NriConfig, Problem, Setting

DEFAULT_CONFIG = "/etc/isulad/daemon.json"


def read_isulad(host: Host, path: str = DEFAULT_CONFIG) -> NriConfig:
    """Read iSulad's configuration, in which timeouts are numbers of seconds."""
    config = NriConfig(
        "isulad",
        files=(),
        enable_key='"nri-support": true',
        connections_key='"disable-connections": false',
    )
    try:
        changed_at = host.status(path).st_mtime
        content = host.read(path)
    except FileNotFoundError:
        return replace(config, missing=path)
    except PermissionError as error:
        return replace(config, unreadable=((path, words(error)),))
    except OSError as error:
        return replace(config, problems=(Problem(path, words(error), True, "correct it"),))
    try:
        table = json.loads(content)
        if not isinstance(table, dict):
            raise ValueError("it is not a JSON object")
    except (ValueError, RecursionError) as error:
        problem = Problem(
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
        changed_at=changed_at,
        enabled=setting("nri-support"),
        connections=setting("disable-connections", negated=True),
        plugin_path=setting("plugin-path"),
        plugin_config_path=setting("plugin-config-path"),
        registration_timeout=setting("plugin-registration-timeout"),
        # The misspelt key is the one that worked in a built iSulad.
        request_timeout=setting("plugin-request-timeout", "plugin-requst-timeout"),
    )
