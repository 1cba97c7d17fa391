# SPDX-License-Identifier: Apache-2.0
"""Quoting of strings as in Go's error messages."""

from __future__ import annotations

_NAMED = {
    '"': r"\"",
    "\\": r"\\",
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
}


def quoted(text: str) -> str:
    """Quote as Go's ``%q`` does: in double quotes, with every unprintable character escaped."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if named := _NAMED.get(character):
        return named
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
