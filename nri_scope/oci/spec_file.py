# SPDX-License-Identifier: Apache-2.0
"""Read a spec from a file, such as a bundle's ``config.json``."""

from __future__ import annotations

import json
from typing import NoReturn, cast

from nri_scope.errors import UsageError

from .spec import Json, Spec

MAX_SPEC_SIZE = 16 * 1024 * 1024
"""Maximum number of bytes. The largest spec of a runtime, with a long seccomp profile and thousands
of mounts, is below one MiB; this size takes a second or two to read and at most a few hundred MiB
of memory.
"""

MAX_SPEC_DEPTH = 64
"""Deepest nesting of objects and arrays. OCI's own maximum is 7: a seccomp rule's argument."""

_HINT = "give an OCI config.json"

_TYPES: dict[str, type] = {
    "ociVersion": str,
    "process": dict,
    "root": dict,
    "hostname": str,
    "domainname": str,
    "mounts": list,
    "hooks": dict,
    "annotations": dict,
    "linux": dict,
    "solaris": dict,
    "windows": dict,
    "vm": dict,
    "zos": dict,
    "freebsd": dict,
    # Not OCI's, but added by `spec_of`.
    "cdiDevices": list,
    "nri": dict,
}
"""Members of a spec (config.md of the runtime spec, 1.3), and their types."""

_WORDS: dict[type, str] = {str: "a string", dict: "an object", list: "an array"}


def read_spec(data: bytes, name: str) -> Spec:
    """Return the spec in the file `name`, whose content is `data`.

    Of duplicate keys the last one counts, as in JSON readers. A part of a spec is enough, if it has
    a member that OCI knows.

    :raises UsageError: too large, not JSON, or not a spec; the text gives place and reason.
    """
    if len(data) > MAX_SPEC_SIZE:
        raise UsageError(f"{name}: too large for an OCI spec ({len(data)} bytes)", _HINT)
    value = _parse(data, name)
    if _is_deep(value):
        raise _too_deep(name)
    if not isinstance(value, dict):
        raise UsageError(f"{name}: not an OCI spec but {_word(value)}", _HINT)
    known = [key for key in _TYPES if value.get(key) is not None]
    if not known:
        info = value.get("info")
        told = isinstance(info, dict) and isinstance(info.get("runtimeSpec"), dict)
        raise UsageError(
            f"{name}: not an OCI spec: it has no process, mounts, linux or the like",
            "take what is in it at .info.runtimeSpec" if told else _HINT,
        )
    for key in known:
        if not isinstance(value[key], _TYPES[key]):
            wanted = _WORDS[_TYPES[key]]
            raise UsageError(
                f"{name}: not an OCI spec: {key} is {_word(value[key])} instead of {wanted}", _HINT
            )
    return value


def _parse(data: bytes, name: str) -> Json:
    try:
        text = data.decode("utf-8-sig")
        return cast("Json", json.loads(text, parse_constant=_refuse))
    except UnicodeDecodeError as error:
        problem = f"no UTF-8 text from byte {error.start + 1} on"
    except json.JSONDecodeError as error:
        problem = f"{error.msg} (line {error.lineno}, column {error.colno})" if data else "empty"
    except RecursionError as error:
        raise _too_deep(name) from error
    except ValueError as error:
        # NaN or a similar constant, or an integer with thousands of digits.
        problem = str(error).partition(";")[0]
    raise UsageError(f"{name}: not JSON: {problem}", _HINT)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number there")


def _too_deep(name: str) -> UsageError:
    return UsageError(f"{name}: not an OCI spec: nested more than {MAX_SPEC_DEPTH} deep", _HINT)


def _is_deep(value: Json) -> bool:
    level = [value]
    for _ in range(MAX_SPEC_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return any(isinstance(each, dict | list) for each in level)


def _word(value: Json) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "null" if value is None else _WORDS[type(value)]
