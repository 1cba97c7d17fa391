# SPDX-License-Identifier: Apache-2.0
"""Read YAML and JSON as ``kubectl`` does, with the line of each value and with limits.

Types are those of kubectl's parser (sigs.k8s.io/yaml, YAML 1.1): ``yes`` is a truth value, ``0644``
an octal number, ``1.10`` a number. Anchors may be used; each use counts as a copy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from nri_scope.text.yaml_reader import (
    NULLS,
    MalformedYaml,
    TreeBuilder,
    TreeNode,
    build_from_events,
)

if TYPE_CHECKING:
    import yaml

MAX_CHARACTERS = 16 << 20
"""Maximum size: ten times that of 500 pods as written by ``kubectl get -o yaml``."""
MAX_DEPTH = 60

Scalar: TypeAlias = bool | int | float | str | None


ManifestValue: TypeAlias = TreeNode[Scalar]


def parse_documents(text: str) -> list[ManifestValue]:
    """Return the documents in ``text`` but the empty ones. Raises only MalformedYaml."""
    if len(text) > MAX_CHARACTERS:
        raise MalformedYaml(0, f"longer than {MAX_CHARACTERS >> 20} MiB")
    if text.lstrip().startswith("{"):
        text = _json_as_yaml(text)
    return build_from_events(
        text,
        lambda events: [
            node for _, node in _Documents(events).documents() if node.value is not None
        ],
    )


_TWO_ESCAPES = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)


def _json_as_yaml(text: str) -> str:
    """Return JSON without what YAML forbids: tabs between tokens, characters as two escapes."""
    return _TWO_ESCAPES.sub(
        lambda found: f"{found[1]}\\U{_code_point(found[2], found[3]):08x}",
        # Strings of JSON contain no tabs.
        text.replace("\t", " "),
    )


def _code_point(high: str, low: str) -> int:
    return 0x10000 + (int(high, 16) - 0xD800 << 10) + int(low, 16) - 0xDC00


class _Documents(TreeBuilder[Scalar]):
    max_depth = MAX_DEPTH
    has_aliases = True

    def check_key(self, event: yaml.ScalarEvent, line: int) -> None:
        if event.value == "<<" and not event.style:
            raise MalformedYaml(line, "merge keys are not supported", "write the values out")

    def scalar(self, event: yaml.ScalarEvent, text: str, line: int) -> Scalar:
        tag: str | None = event.tag
        if tag in (_STRING_TAG, "!") or (tag is None and event.style):
            return text
        if tag is not None and tag not in _KNOWN_TAGS:
            raise MalformedYaml(line, f"the tag {tag[:80]!r} is not supported")
        value = _plain(text)
        if tag is not None and not isinstance(value, _KNOWN_TAGS[tag]):
            raise MalformedYaml(line, f"{text[:80]!r} does not fit its tag")
        return value


_STRING_TAG = "tag:yaml.org,2002:str"
_KNOWN_TAGS = {
    f"tag:yaml.org,2002:{name}": kind
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("null", type(None)))
}
_TRUTHS = {
    spelling: truth
    for truth, words in ((True, "y yes true on"), (False, "n no false off"))
    for word in words.split()
    for spelling in (word, word.capitalize(), word.upper())
}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_INTEGER = re.compile(
    r"[-+]?(?:0b[01]+|0o[0-7]+|0x[0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", re.ASCII | re.IGNORECASE
)
_MAX_DIGITS = 64


def _plain(text: str) -> Scalar:
    """Return the value of a scalar without quotes, as goyaml.v2 resolves it."""
    if text in NULLS:
        return None
    if text in _TRUTHS:
        return _TRUTHS[text]
    digits = text.replace("_", "")
    if len(digits) <= _MAX_DIGITS:
        if _INTEGER.fullmatch(digits):
            return _integer(digits)
        if _FLOAT.fullmatch(digits):
            return float(digits)
    return text


def _integer(digits: str) -> int:
    sign = -1 if digits[0] == "-" else 1
    digits = digits.lstrip("+-").lower()
    base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2])
    if base:
        return sign * int(digits[2:], base)
    return sign * int(digits, 8 if digits[0] == "0" and len(digits) > 1 else 10)
