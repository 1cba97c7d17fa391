# SPDX-License-Identifier: Apache-2.0
"""A plugin's identity: its index, its name, and the file name from which a runtime launches it."""

from __future__ import annotations

import re

from nri_scope.errors import UsageError

_INDEX = re.compile(r"[0-9]{2}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_.+-]+", re.ASCII)

KEPT_FOLDER = ".nri-scope"
"""A folder among plugins' files that runtimes ignore: originals of plugins that are tapped (see
`tap.wrapping`).
"""


def check_index(index: str) -> str:
    """Return `index` if it is exactly two digits, as every runtime requires; else UsageError."""
    if _INDEX.fullmatch(index):
        return index
    if re.fullmatch(r"[0-9]", index, re.ASCII):
        hint = f"write 0{index}"
    else:
        hint = "give two digits, 00 to 99: plugins are called in the order of their indices"
    raise UsageError(f"{index!r} is no plugin index", hint)


def check_name(name: str) -> str:
    """Return `name` if a runtime would accept it as a plugin's name; else UsageError.

    Letters, digits and ``_ . + -``; runtimes enforce this since NRI 0.12, and refuse the
    registration otherwise.
    """
    if _NAME.fullmatch(name):
        return name
    if not name:
        raise UsageError("a plugin needs a name", "give one of letters, digits and _ . + -")
    raise UsageError(f"{name!r} is no plugin name", "use only letters, digits and _ . + -")


def plugin_id(index: str, name: str) -> str:
    """Return ``NN-name``, as runtimes write a plugin in logs and owners."""
    return f"{index}-{name}"


def parse_plugin_file(file_name: str) -> tuple[str, str]:
    """Split the name of a file in the plugin folder, ``NN-name``, into index and name.

    A launched plugin has this name regardless of its registration. The name part is not checked
    against `check_name`: runtimes do not check it for files either; only the index is required.
    Raises UsageError.
    """
    index, dash, name = file_name.partition("-")
    if not dash or not name or not _INDEX.fullmatch(index):
        raise UsageError(
            f"{file_name!r} is no name for a plugin's file",
            "name it NN-name with two digits, for example 10-" + (name or file_name or "plugin"),
        )
    return index, name
