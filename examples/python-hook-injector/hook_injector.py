# SPDX-License-Identifier: Apache-2.0
"""NRI plugin that adds OCI hooks to containers, from the hook directories of Podman and CRI-O.

Each ``*.json`` file of the directories describes a hook, its stages and the containers that get it,
in the format of oci-hooks(5), version 1.0.0. A file replaces one of the same name in an earlier
directory. The files are read at the start.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import re2
from nri_scope.errors import UsageError
from nri_scope.plugin import api, run

DIRECTORIES = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")

STAGES: Mapping[str, str] = {
    # Deprecated in OCI, and replaced by createRuntime as in Podman and CRI-O.
    "prestart": "create_runtime",
    "createRuntime": "create_runtime",
    "createContainer": "create_container",
    "startContainer": "start_container",
    "poststart": "poststart",
    "poststop": "poststop",
}


@dataclass(frozen=True)
class Hook:
    """One hook: the fields of a hook file."""

    message: api.Hook
    stages: tuple[str, ...]
    always: bool | None
    annotations: tuple[tuple[Any, Any], ...]
    """Pairs of patterns for a key and its value."""
    commands: tuple[Any, ...]
    has_bind_mounts: bool | None

    def matches(self, pod: api.PodSandbox, container: api.Container) -> bool:
        """Return whether all conditions hold; a hook without any condition matches nothing."""
        if self.always is False or self.has_bind_mounts is False:
            return False
        if self.has_bind_mounts and not any(one.type == "bind" for one in container.mounts):
            return False
        annotations = {**container.annotations, **pod.annotations}
        for key_pattern, value_pattern in self.annotations:
            if not any(
                key_pattern.search(key) and value_pattern.search(value)
                for key, value in annotations.items()
            ):
                return False
        if self.commands:
            command = container.args[0] if container.args else ""
            return any(pattern.search(command) for pattern in self.commands)
        return bool(self.always or self.has_bind_mounts or self.annotations)


class HookInjector:
    """Plugin that adds the hooks of hook directories to matching containers."""

    def __init__(self, directories: Iterable[str | Path]) -> None:
        self.hooks = read_hooks(directories)

    def create_container(
        self, pod: api.PodSandbox, container: api.Container
    ) -> api.ContainerAdjustment | None:
        """Add the hooks whose conditions hold, in the order of their file names."""
        adjustment = api.ContainerAdjustment()
        matching = [hook for hook in self.hooks if hook.matches(pod, container)]
        for hook in matching:
            for stage in hook.stages:
                getattr(adjustment.hooks, stage).append(hook.message)
        return adjustment if matching else None


def read_hooks(directories: Iterable[str | Path]) -> list[Hook]:
    """Read the hook files of all directories that exist, sorted by name. Raises `UsageError`."""
    files = {path.name: path for folder in directories for path in Path(folder).glob("*.json")}
    return [_read(files[name]) for name in sorted(files, key=str.lower)]


def _read(path: Path) -> Hook:
    try:
        hook = _hook(json.loads(path.read_bytes()))
        program = Path(hook.message.path)
        if not program.is_absolute():
            raise UsageError(f"hook.path: not an absolute path: {program}")
        if not program.exists():
            raise UsageError(f"hook.path: no such program: {program}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, re2.error) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path}: not a hook of version 1.0.0: {problem}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return hook


def _hook(data: dict[str, Any]) -> Hook:
    if data["version"] != "1.0.0":
        raise ValueError(f"version is {data['version']!r}")
    hook, when = data["hook"], data["when"]
    if unknown := [stage for stage in data["stages"] if stage not in STAGES]:
        raise ValueError(f"stages: unknown are {unknown}")
    if unknown := when.keys() - {"always", "annotations", "commands", "hasBindMounts"}:
        raise ValueError(f"when: unknown are {sorted(unknown)}")
    timeout = hook.get("timeout")
    return Hook(
        message=api.Hook(
            path=hook["path"],
            args=hook.get("args"),
            env=hook.get("env"),
            timeout=None if timeout is None else api.OptionalInt(value=timeout),
        ),
        stages=tuple(STAGES[stage] for stage in data["stages"]),
        always=when.get("always"),
        annotations=tuple(
            (re2.compile(key), re2.compile(value))
            for key, value in when.get("annotations", {}).items()
        ),
        commands=tuple(map(re2.compile, when.get("commands", ()))),
        has_bind_mounts=when.get("hasBindMounts"),
    )


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--hooks-dir",
        action="append",
        metavar="DIR",
        help=f"directory with hook files; repeatable (default: {' and '.join(DIRECTORIES)})",
    )
    options, rest = parser.parse_known_args()
    plugin = HookInjector(options.hooks_dir or DIRECTORIES)
    run(plugin, name="hook-injector", index="30", arguments=rest)


if __name__ == "__main__":
    main()
