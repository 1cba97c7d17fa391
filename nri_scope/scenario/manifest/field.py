# SPDX-License-Identifier: Apache-2.0
"""Read the fields of a manifest by type; errors name its file, the line and the field's path."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from nri_scope.errors import UsageError
from nri_scope.text.escape import safe
from nri_scope.text.yaml_reader import (
    NULLS,
    MalformedYaml,
    TreeBuilder,
    YamlNode,
    build_from_events,
)

from ..model import meant

if TYPE_CHECKING:
    import yaml


_QUANTITY = re.compile(
    r"([+-]?)([0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
    r"(?:([numkMGTPE]|[KMGTPE]i)?|[eE]([+-]?[0-9]{1,2}))",
    re.ASCII,
)
_SUFFIXES = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("num", -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_LARGEST = 2**63 - 1


def parse_quantity(text: str) -> Fraction | None:
    """Return the value of a quantity, at most 2⁶³ - 1; None if ``text`` is not one."""
    parsed = _QUANTITY.fullmatch(text)
    if parsed is None:
        return None
    sign, digits, suffix, exponent = parsed.groups()
    scale = Fraction(10) ** int(exponent) if exponent else _SUFFIXES.get(suffix, Fraction(1))
    amount = min(Fraction(digits) * scale, Fraction(_LARGEST))
    return -amount if sign == "-" else amount


def whole(quantity: Fraction) -> int:
    """Return a quantity, or a sum of some, rounded up as by Kubernetes; at most 2⁶³ - 1."""
    return min(math.ceil(quantity), _LARGEST)


def milli(quantity: Fraction) -> int:
    """Return a quantity in thousandths, rounded up."""
    return min(math.ceil(quantity * 1000), _LARGEST)


MAX_CHARACTERS = 16 << 20
"""Maximum size: ten times that of 500 pods as written by ``kubectl get -o yaml``."""
MAX_DEPTH = 60

Scalar: TypeAlias = bool | int | float | str | None


ManifestValue: TypeAlias = YamlNode[Scalar]


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
        lambda escape: f"{escape[1]}\\U{_code_point(escape[2], escape[3]):08x}",
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


_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_TYPES = {bool: "true or false", int: "a number", float: "a number", str: "text", dict: "a mapping"}


@dataclass(frozen=True, slots=True)
class ManifestField:
    """A place in a manifest, possibly without a value."""

    source: str
    path: str
    line: int
    """Line of the value; without one, that of the nearest value around it."""
    node: ManifestValue | None
    around: ManifestField | None = None
    """The mapping that has it, or lacks it."""
    key: str = ""
    """Its key in that mapping."""

    def __getitem__(self, key: str) -> ManifestField:
        entries = self._mapping()
        node = entries.get(key)
        name = key if _PLAIN_KEY.fullmatch(key) else f"[{safe(key, 80)}]"
        path = f"{self.path}.{name}" if self.path and name == key else self.path + name
        return ManifestField(self.source, path, node.line if node else self.line, node, self, key)

    def __bool__(self) -> bool:
        """Return whether there is a value; null means none, as in Kubernetes."""
        return self.node is not None and self.node.value is not None

    def error(self, problem: str, hint: str = "") -> UsageError:
        """Return an error about this field."""
        path = self.path or "the document"
        return UsageError(f"{safe(self.source)}:{self.line}: {path}: {problem}", hint)

    def missing(self) -> UsageError:
        """Return the error of a missing field: of its misspelt key, if there seems to be one."""
        field: ManifestField | None = self
        while field is not None and field.around is not None and not field:
            for key, neighbour in field.around.entries():
                if key != field.key and meant(key, [field.key]):
                    return neighbour.misspelt(field.key)
            field = field.around
        return self.error("is missing")

    def misspelt(self, name: str) -> UsageError:
        """Return the error of a field that is probably ``name``."""
        return self.error("is not a field", f"did you mean {name}?")

    def keys(self) -> Sequence[str]:
        """Return the keys of a mapping, in the order of the text."""
        return list(self._mapping())

    def entries(self) -> Iterator[tuple[str, ManifestField]]:
        """Yield the keys and values of a mapping."""
        for key in self._mapping():
            yield key, self[key]

    def items(self) -> Iterator[ManifestField]:
        """Yield the items of a list."""
        if not self:
            return
        assert self.node is not None
        if not isinstance(self.node.value, list):
            self._refuse("a list")
        for index, node in enumerate(self.node.value):
            yield ManifestField(self.source, f"{self.path}[{index}]", node.line, node)

    def text(self, default: str = "") -> str:
        """Return text; unquoted numbers and truth values are refused, as by Kubernetes."""
        if not self:
            return default
        assert self.node is not None
        value = self.node.value
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            raise self.error(
                f"{safe(self.node.text, 80)} is {_TYPES[type(value)]}, not text", "quote it"
            )
        return self._refuse("text")

    def required_text(self) -> str:
        """Return text that must not be empty."""
        if not (text := self.text()):
            raise self.missing()
        return text

    def texts(self) -> list[str]:
        """Return a list of texts."""
        return [item.text() for item in self.items()]

    def string_map(self) -> dict[str, str]:
        """Return a mapping of texts."""
        return {key: value.text() for key, value in self.entries()}

    def integer(self, default: int = 0, *, low: int = 0, high: int = 2**63 - 1) -> int:
        """Return an integer from ``low`` to ``high``."""
        if not self:
            return default
        assert self.node is not None
        value = self.node.value
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self._refuse("an integer")
        if not low <= value <= high:
            raise self.error(f"{value} is not between {low} and {high}")
        return value

    def flag(self, default: bool = False) -> bool:
        """Return a truth value."""
        if not self:
            return default
        assert self.node is not None
        if not isinstance(self.node.value, bool):
            self._refuse("true or false")
        return self.node.value

    def quantity(self) -> Fraction:
        """Return a quantity such as ``500m`` or ``1Gi``, which may be written as a number."""
        assert self.node is not None
        value = self.node.value
        if isinstance(value, list | dict | bool | None):
            self._refuse("a quantity")
        text = str(value) if isinstance(value, str | int) else self.node.text
        quantity = parse_quantity(text)
        if quantity is None:
            raise self.error(
                f"{safe(text, 80)!r} is not a quantity", "write for example 500m, 2 or 1Gi"
            )
        if quantity < 0:
            raise self.error("a quantity must not be negative")
        return quantity

    def quantities(self) -> dict[str, Fraction]:
        """Return a mapping of quantities."""
        return {key: value.quantity() for key, value in self.entries() if value}

    def name(self, pattern: re.Pattern[str], kind: str) -> str:
        """Return text that must match ``pattern``; ``kind`` describes it."""
        text = self.required_text()
        if not pattern.fullmatch(text):
            raise self.error(f"{safe(text, 80)!r} is not {kind}")
        return text

    def choice(self, *allowed: str, default: str = "") -> str:
        """Return one of the ``allowed`` texts."""
        text = self.text(default)
        if text not in (*allowed, default):
            raise self.error(f"{safe(text, 80)!r} is not one of {', '.join(allowed)}")
        return text

    def unknown_keys(self, known: frozenset[str]) -> list[ManifestField]:
        """Return the fields that are not ``known``; a misspelt one is an error.

        A field of a later version of Kubernetes is not an error.
        """
        unknown = [self[key] for key in self._mapping() if key not in known]
        for field in unknown:
            if name := meant(field.key, known):
                raise field.misspelt(name)
        return unknown

    def _mapping(self) -> dict[str, ManifestValue]:
        if not self:
            return {}
        assert self.node is not None
        if not isinstance(self.node.value, dict):
            self._refuse("a mapping")
        return self.node.value

    def _refuse(self, wanted: str) -> NoReturn:
        assert self.node is not None
        value = self.node.value
        text = safe(self.node.text, 80) if not isinstance(value, list | dict) else ""
        kind = "a list" if isinstance(value, list) else _TYPES.get(type(value), "nothing")
        raise self.error(f"{wanted} is needed, not {repr(text) if text else kind}")
