# SPDX-License-Identifier: Apache-2.0
"""Parse the plugins of a test: objects with handlers, or commands."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from nri_scope.errors import UsageError
from nri_scope.nri.identity import check_index, check_name
from nri_scope.plugin.handlers import Handlers

from ..chain import DEFAULT_INDEX, Command, command
from ..plugins import InProcess, PluginSet

Find = Callable[[str], str]
"""Returns the path of a file given relative to a test."""


def plugin_set_of(
    plugin: object,
    *,
    index: str = "",
    name: str = "",
    config: str | Mapping[str, str] = "",
    environment: Mapping[str, str] | None = None,
    external: bool = False,
    find: Find = str,
) -> PluginSet:
    """Parse ``plugin``: one plugin, or a mapping from "NN" or "NN-name" to plugins.

    A plugin is an object with handlers, or a command: a list, a path, or a string in shell quoting.
    ``config`` is for all plugins, or a mapping by index. ``external``: start commands as external
    plugins. Raises `UsageError`.
    """
    if isinstance(plugin, Mapping):
        several = cast("Mapping[object, object]", plugin)
        if not several:
            raise UsageError("the mapping of plugins is empty", "add a plugin")
        if index or name:
            raise UsageError(
                "index and name are not valid with a mapping of plugins",
                'use its keys, for example "10-mine"',
            )
        plugins = tuple(
            _one(item, *_place(key), find, external=external) for key, item in several.items()
        )
    else:
        plugins = (_one(plugin, index, name, find, external=external),)
    configs = {"": config} if isinstance(config, str) else dict(config)
    for unknown in configs.keys() - {item.index for item in plugins} - {""}:
        raise UsageError(f"config for {unknown!r}: no plugin has this index")
    return PluginSet(plugins, configs, dict(environment or {}))


def _place(key: object) -> tuple[str, str]:
    if not isinstance(key, str):
        raise UsageError(f"{key!r} is not a plugin index", 'write it as text: "10"')
    index, _, name = key.partition("-")
    return check_index(index), name


def _one(
    plugin: object, index: str, name: str, find: Find, *, external: bool
) -> Command | InProcess:
    argv = _argv(plugin)
    if argv is None:
        # Raises UsageError for objects without handlers, which would never register.
        Handlers.of(plugin)
        return InProcess(
            check_index(index or DEFAULT_INDEX), check_name(name or _name_of(plugin)), plugin
        )
    if not argv or not argv[0]:
        raise UsageError("the plugin's command is empty", "name a program")
    program = find(argv[0]) if "/" in argv[0] else argv[0]
    return command((program, *argv[1:]), index, name, external=external)


def _argv(plugin: object) -> tuple[str, ...] | None:
    """Return the words of a command; None if ``plugin`` is not a command."""
    match plugin:
        case str():
            try:
                return tuple(shlex.split(plugin))
            except ValueError as error:
                raise UsageError(f"{plugin!r}: {str(error).lower()}", "check its quotes") from error
        case os.PathLike():
            return (_word(plugin),)
        case list() | tuple():
            return tuple(map(_word, cast("Iterable[object]", plugin)))
    return None


def _word(word: object) -> str:
    if isinstance(word, str):
        return word
    path = os.fspath(cast("os.PathLike[str]", word)) if isinstance(word, os.PathLike) else None
    if not isinstance(path, str):
        raise UsageError(f"{word!r} is not valid in a command", "use texts and paths")
    return path


def _name_of(plugin: object) -> str:
    """Derive a name from the class: "my-device" from "MyDevice", "my" from "MyPlugin"."""
    words = re.sub(
        r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+", "-", type(plugin).__name__
    )
    name = words.strip("-").lower()
    return name.removesuffix("-plugin") or "plugin"
