# SPDX-License-Identifier: Apache-2.0
"""A plugin's identity: its index, its name, and the name of the file that a runtime launches."""

from __future__ import annotations

import re

from nri_scope.errors import UsageError

_INDEX = re.compile(r"[0-9]{2}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_.+-]+", re.ASCII)

ORIGINALS_FOLDER = ".nri-scope"
"""Folder for the original files of tapped plugins (see `tap.wrapper`), inside the plugin folder;
runtimes ignore it.
"""
WASM_MAGIC = b"\0asm"
"""The first bytes of a plugin that is WebAssembly."""


def check_index(index: str) -> str:
    """Return `index`; raise UsageError if it is not exactly two digits, as runtimes require."""
    if _INDEX.fullmatch(index):
        return index
    if re.fullmatch(r"[0-9]", index, re.ASCII):
        hint = f"write 0{index}"
    else:
        hint = "give two digits, 00 to 99: plugins are called in the order of their indices"
    raise UsageError(f"{index!r} is not a plugin index", hint)


def check_name(name: str) -> str:
    """Return `name`; raise UsageError if runtimes would not accept it as a plugin's name.

    Allowed are letters, digits and ``_ . + -``; since NRI 0.12, runtimes refuse the registration of
    other names.
    """
    if _NAME.fullmatch(name):
        return name
    if not name:
        raise UsageError("a plugin needs a name", "use letters, digits and _ . + -")
    raise UsageError(f"{name!r} is not a plugin name", "use only letters, digits and _ . + -")


def plugin_id(index: str, name: str) -> str:
    """Return ``NN-name``, as runtimes name a plugin in logs and owners."""
    return f"{index}-{name}"


def index_of(plugin: str) -> str:
    """Return the index of ``NN-name``; the whole text if it has none."""
    index, _, name = plugin.partition("-")
    return index if name and _INDEX.fullmatch(index) else plugin


def parse_plugin_file(file_name: str) -> tuple[str, str]:
    """Split the name of a file in the plugin folder, ``NN-name``, into index and name.

    A launched plugin has this identity regardless of its registration. Like runtimes, this does
    not check the name with `check_name`. Raises UsageError if there is no index or no name.
    """
    index, dash, name = file_name.partition("-")
    if not dash or not name or not _INDEX.fullmatch(index):
        raise UsageError(
            f"{file_name!r} is not a name for a plugin file",
            "name it NN-name with two digits, for example 10-" + (name or file_name or "plugin"),
        )
    return index, name
