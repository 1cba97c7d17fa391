# SPDX-License-Identifier: Apache-2.0
"""Read the fields of a manifest by type; errors name its file, the line and the field's path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from nri_scope.errors import UsageError
from nri_scope.text.escape import safe

from ..place import meant
from .quantity import parse_quantity
from .yaml_document import ManifestValue

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_TYPES = {bool: "true or false", int: "a number", float: "a number", str: "text", dict: "a mapping"}


@dataclass(frozen=True, slots=True)
class Field:
    """A place in a manifest, possibly without a value."""

    source: str
    path: str
    line: int
    """Line of the value; without one, that of the nearest value around it."""
    node: ManifestValue | None
    around: Field | None = None
    """The mapping that has it, or lacks it."""
    key: str = ""
    """Its key in that mapping."""

    def __getitem__(self, key: str) -> Field:
        entries = self._mapping()
        node = entries.get(key)
        name = key if _PLAIN_KEY.fullmatch(key) else f"[{safe(key, 80)}]"
        path = f"{self.path}.{name}" if self.path and name == key else self.path + name
        return Field(self.source, path, node.line if node else self.line, node, self, key)

    def __bool__(self) -> bool:
        """Return whether there is a value; null means none, as in Kubernetes."""
        return self.node is not None and self.node.value is not None

    def error(self, problem: str, hint: str = "") -> UsageError:
        """Return an error about this field."""
        place = self.path or "the document"
        return UsageError(f"{safe(self.source)}:{self.line}: {place}: {problem}", hint)

    def missing(self) -> UsageError:
        """Return the error of a missing field: of its misspelt key, if there seems to be one."""
        field: Field | None = self
        while field is not None and field.around is not None and not field:
            for key, other in field.around.entries():
                if key != field.key and meant(key, [field.key]):
                    return other.misspelt(field.key)
            field = field.around
        return self.error("is missing")

    def misspelt(self, name: str) -> UsageError:
        """Return the error of a field that is probably ``name``."""
        return self.error("is not a field", f"did you mean {name}?")

    def keys(self) -> Sequence[str]:
        """Return the keys of a mapping, in the order of the text."""
        return list(self._mapping())

    def entries(self) -> Iterator[tuple[str, Field]]:
        """Yield the keys and values of a mapping."""
        for key in self._mapping():
            yield key, self[key]

    def items(self) -> Iterator[Field]:
        """Yield the items of a list."""
        if not self:
            return
        assert self.node is not None
        if not isinstance(self.node.value, list):
            self._refuse("a list")
        for index, node in enumerate(self.node.value):
            yield Field(self.source, f"{self.path}[{index}]", node.line, node)

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

    def unknown_keys(self, known: frozenset[str]) -> list[Field]:
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
        found = safe(self.node.text, 80) if not isinstance(value, list | dict) else ""
        kind = "a list" if isinstance(value, list) else _TYPES.get(type(value), "nothing")
        raise self.error(f"{wanted} is needed, not {repr(found) if found else kind}")
