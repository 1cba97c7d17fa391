# SPDX-License-Identifier: Apache-2.0
"""Read a spec from a file, such as a bundle's ``config.json``."""

from __future__ import annotations

import json
from typing import NoReturn, cast

from nri_scope.errors import UsageError

from .json_spec import Json, Spec

MAX_SPEC_SIZE = 16 * 1024 * 1024
"""Maximum size in bytes. The largest specs of runtimes, with a long seccomp profile and thousands
of mounts, are below 1 MiB; parsing the maximum takes a second or two and at most a few hundred MiB
of memory.
"""

MAX_SPEC_DEPTH = 64
"""Maximum depth of objects and arrays. OCI's own maximum is 7, for a seccomp rule's argument."""

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
    # Not in OCI; added by `spec_of`.
    "cdiDevices": list,
    "nri": dict,
}
"""Members of a spec (config.md of the runtime spec, 1.3), and their types."""

_TYPE_NAMES: dict[type, str] = {str: "a string", dict: "an object", list: "an array"}


def read_spec(data: bytes, name: str) -> Spec:
    """Parse `data`, the content of the file `name`, as a spec.

    The last of duplicate keys is effective, as usual in JSON parsers. A part of a spec is accepted
    if it has at least one member of OCI's.

    :raises UsageError: too large, not JSON, or not a spec.
    """
    if len(data) > MAX_SPEC_SIZE:
        raise UsageError(f"{name}: too large for an OCI spec ({len(data)} bytes)", _HINT)
    value = _parse(data, name)
    if _is_deep(value):
        raise _too_deep(name)
    if not isinstance(value, dict):
        raise UsageError(f"{name}: not an OCI spec but {_type_name(value)}", _HINT)
    known = [key for key in _TYPES if value.get(key) is not None]
    if not known:
        info = value.get("info")
        has_spec = isinstance(info, dict) and isinstance(info.get("runtimeSpec"), dict)
        raise UsageError(
            f"{name}: not an OCI spec: it has no process, mounts, linux or similar member",
            "extract .info.runtimeSpec from it" if has_spec else _HINT,
        )
    for key in known:
        if not isinstance(value[key], _TYPES[key]):
            actual, expected = _type_name(value[key]), _TYPE_NAMES[_TYPES[key]]
            raise UsageError(
                f"{name}: not an OCI spec: {key} is {actual} instead of {expected}", _HINT
            )
    return value


def _parse(data: bytes, name: str) -> Json:
    try:
        text = data.decode("utf-8-sig")
        return cast("Json", json.loads(text, parse_constant=_refuse))
    except UnicodeDecodeError as error:
        problem = f"byte {error.start + 1} is not valid UTF-8"
    except json.JSONDecodeError as error:
        problem = f"{error.msg} (line {error.lineno}, column {error.colno})" if data else "empty"
    except RecursionError as error:
        raise _too_deep(name) from error
    except ValueError as error:
        # A constant such as NaN, or an integer with thousands of digits.
        problem = str(error).partition(";")[0]
    raise UsageError(f"{name}: not JSON: {problem}", _HINT)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


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


def _type_name(value: Json) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "null" if value is None else _TYPE_NAMES[type(value)]
