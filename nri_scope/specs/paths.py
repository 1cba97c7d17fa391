# SPDX-License-Identifier: Apache-2.0
"""JSON pointers (RFC 6901) into a spec, with an array member's key instead of its position:
``/process/env/FOO``, ``/mounts/~1data/options``.
"""

from __future__ import annotations


def pointer(base: str, key: str) -> str:
    """Append `key`, escaped, to the pointer `base`."""
    return f"{base}/{key.replace('~', '~0').replace('/', '~1')}"


def split(path: str) -> tuple[str, ...]:
    """Return the keys of a pointer, unescaped; () for the whole spec."""
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:])
