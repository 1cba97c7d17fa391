# SPDX-License-Identifier: Apache-2.0
"""JSON pointers (RFC 6901) into a spec, with an array member's key instead of its position:
``/process/env/FOO``, ``/mounts/~1data/options``.
"""

from __future__ import annotations

from collections.abc import Collection


def pointer(base: str, key: str) -> str:
    """Append `key`, escaped, to the pointer `base`."""
    return f"{base}/{key.replace('~', '~0').replace('/', '~1')}"


def split(path: str) -> tuple[str, ...]:
    """Return the keys of a pointer, unescaped; () for the whole spec."""
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:])


def is_within(path: str, places: Collection[str]) -> bool:
    """Return whether a path, or one that contains it, is among `places`."""
    while path:
        if path in places:
            return True
        path = path.rpartition("/")[0]
    return False


def touches(path: str, places: Collection[str]) -> bool:
    """Return whether any of `places` contains `path`, or is a part of it."""
    below = f"{path}/"
    return is_within(path, places) or any(one.startswith(below) for one in places)
