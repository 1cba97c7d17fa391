# SPDX-License-Identifier: Apache-2.0
"""Check documents against a JSON Schema, with the keywords that ours uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "object": dict,
    "array": list,
}
KEYWORDS = frozenset(
    {
        "$schema", "$defs", "$ref", "title", "description", "type", "enum", "const", "anyOf",
        "oneOf", "properties", "additionalProperties", "required", "items", "pattern", "minimum",
        "maximum",
    }
)  # fmt: skip


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside of one, and itself."""
    yield schema
    for name in ("$defs", "properties"):
        for one in schema.get(name, {}).values():
            yield from schemas_in(one)
    for name in ("anyOf", "oneOf"):
        for one in schema.get(name, []):
            yield from schemas_in(one)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from schemas_in(schema[name])


def accepts(root: dict[str, Any], value: object, schema: dict[str, Any] | None = None) -> bool:
    """Whether a schema, by default the root, accepts a value."""
    schema = root if schema is None else schema
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if not accepts(root, value, root["$defs"][name]):
            return False
    kinds = schema.get("type", [])
    if kinds and not any(_is(value, kind) for kind in ([kinds] if type(kinds) is str else kinds)):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    for name, least, most in (("anyOf", 1, 1 << 30), ("oneOf", 1, 1)):
        count = sum(accepts(root, value, one) for one in schema.get(name, []))
        if name in schema and not least <= count <= most:
            return False
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        return False
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return False
    if isinstance(value, list) and "items" in schema:
        return all(accepts(root, one, schema["items"]) for one in value)
    if isinstance(value, dict):
        return _accepts_object(root, value, schema)
    return True


def _accepts_object(root: dict[str, Any], value: dict[str, Any], schema: dict[str, Any]) -> bool:
    if not set(schema.get("required", [])) <= value.keys():
        return False
    known = schema.get("properties", {})
    other = schema.get("additionalProperties", True)
    for key, one in value.items():
        if key in known:
            if not accepts(root, one, known[key]):
                return False
        elif other is False or (isinstance(other, dict) and not accepts(root, one, other)):
            return False
    return True


def _is(value: object, kind: str) -> bool:
    if kind in ("integer", "number"):
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, _TYPES[kind])
