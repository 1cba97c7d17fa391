# SPDX-License-Identifier: Apache-2.0
"""Redaction rules, as plain data and in rule files; in all patterns, ``*`` matches any text.

Files are TOML, parsed strictly, since an ignored typo would leave a secret visible. Patterns are
RE2's, which take linear time for any expression and any text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, cast

import re2

from nri_scope.errors import UsageError, did_you_mean, reason_of
from nri_scope.recording.file.schema_check import FIRST_BYTES
from nri_scope.recording.file.trusted_location import read_regular

from .builtin import DEFAULT_RULES, BuiltIn


@dataclass(frozen=True)
class Rules:
    """The rules of one redaction."""

    DEFAULT: ClassVar[Rules]

    enabled: frozenset[BuiltIn] = DEFAULT_RULES
    """The built-in rules that are on."""
    kept_variables: tuple[str, ...] = ()
    """Names of variables whose values are kept."""
    kept_keys: tuple[str, ...] = ()
    """Keys of annotations, labels, options and members of JSON whose values are kept."""
    kept_hosts: tuple[str, ...] = ()
    """Host names and registries kept in addition to `harmless.HOSTS`."""
    kept_values: tuple[str, ...] = ()
    """Values and words kept wherever they stand between spaces, quotes and separators; these are
    no patterns."""
    replaced_keys: tuple[str, ...] = ()
    """Keys whose values are replaced like those of credentials."""
    replaced_values: tuple[str, ...] = ()
    """Words that are replaced wherever they stand between spaces, quotes and separators."""
    repeated_values: tuple[str, ...] = ()
    """Values that are replaced wherever they stand in texts, also if keys have told them."""
    node_names: tuple[str, ...] = ()
    """Names of nodes for `BuiltIn.NODES`."""
    source: str = ""
    """The name of the rule file without its folder, or ``--keep``; "" for the default rules."""

    def keeping(self, keys: tuple[str, ...]) -> Rules:
        """Return rules that also keep the values of these keys, whatever has them."""
        bare = tuple(key.lstrip("-") for key in keys)
        variables, keys = self.kept_variables + bare, self.kept_keys + bare
        source = self.source or "--keep"
        return replace(self, kept_variables=variables, kept_keys=keys, source=source)


Rules.DEFAULT = Rules()


def compiled(pattern: str) -> re2._Regexp[str]:
    """Compile a pattern. Raises re2.error, or UnicodeEncodeError for half of a surrogate pair."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 32 << 20
    return re2.compile(pattern, options)


def glob(pattern: str) -> str:
    """Translate a pattern in which ``*`` matches any text to a regular expression."""
    return "(?s:" + ".*".join(re2.escape(part) for part in pattern.split("*")) + ")"


def any_of(globs: Iterable[str]) -> re2._Regexp[str]:
    """Compile patterns in which ``*`` matches any text."""
    return compiled("|".join(map(glob, globs)))


MAX_SIZE = 1 << 20
"""Maximum size of the file in bytes."""
_LISTS = {
    "allow": ("env", "keys", "hosts", "registries", "values"),
    "replace": ("keys", "values"),
    "names": ("nodes",),
}
"""The lists of each table."""


class _RuleFileError(Exception):
    """An error in the file, with its location (table and key) and a hint."""

    def __init__(self, problem: str, hint: str, *location: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.location = location


def read_rules(path: Path) -> Rules:
    """Return the default rules, changed as the file says.

    Raises UsageError that names the file, the line and the reason.
    """
    try:
        content = read_regular(path, MAX_SIZE + 1)
    except OSError as error:
        raise UsageError(f"{path}: {reason_of(error)}", "name a rule file") from error
    if content.startswith(FIRST_BYTES):
        # In ``--redact FILE``, the recording was parsed as the option's value.
        raise UsageError(f"{path}: a recording, not a file of rules", "name the recording first")
    if len(content) > MAX_SIZE:
        raise UsageError(
            f"{path}: larger than {MAX_SIZE >> 10} KiB, the limit of a rule file",
            "name another file",
        )
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}: line {line}: not valid UTF-8") from error
    try:
        return _parse_rules(tomllib.loads(text), path.name)
    except _RuleFileError as error:
        line = _line_of(text, error.location)
        raise UsageError(f"{path}: line {line}: {error.problem}", error.hint) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            f"{path}: {_toml_error(error, text)}", "see docs/redaction.md for the format"
        ) from error


def _parse_rules(content: dict[str, object], name: str) -> Rules:
    for table in content:
        _check_name(table, ("switches", *_LISTS), "table", table)
    switches = _table_of(content, "switches")
    enabled = set(DEFAULT_RULES)
    for switch, value in switches.items():
        _check_name(switch, tuple(BuiltIn), "switch", "switches", switch)
        if not isinstance(value, bool):
            raise _RuleFileError(f"{switch} is neither true nor false", "", "switches", switch)
        (enabled.add if value else enabled.discard)(BuiltIn(switch))
    lists: dict[tuple[str, str], tuple[str, ...]] = {}
    for table, keys in _LISTS.items():
        entries = _table_of(content, table)
        for key in entries:
            _check_name(key, keys, "list", table, key)
        lists |= {(table, key): _strings(entries, table, key) for key in keys}
    nodes = lists["names", "nodes"]
    if nodes and BuiltIn.NODES not in switches:
        enabled.add(BuiltIn.NODES)
    return Rules(
        enabled=frozenset(enabled),
        kept_variables=lists["allow", "env"],
        kept_keys=lists["allow", "keys"],
        kept_hosts=lists["allow", "hosts"] + lists["allow", "registries"],
        kept_values=lists["allow", "values"],
        replaced_keys=lists["replace", "keys"],
        replaced_values=lists["replace", "values"],
        node_names=nodes,
        source=name,
    )


def _table_of(content: dict[str, object], name: str) -> dict[str, object]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise _RuleFileError(f"{name} is not a table", f"write [{name}] on a line of its own", name)
    return cast("dict[str, object]", table)


def _strings(table: dict[str, object], *location: str) -> tuple[str, ...]:
    key = location[-1]
    values = table.get(key, [])
    if not isinstance(values, list) or not all(isinstance(text, str) and text for text in values):
        raise _RuleFileError(
            f"{key} is not a list of non-empty strings", f'write {key} = ["…", "…"]', *location
        )
    return tuple(cast("list[str]", values))


def _check_name(name: str, names: Collection[str], kind: str, *location: str) -> None:
    if name in names:
        return
    hint = did_you_mean(name, names, cutoff=0.5) or f"choose one of {', '.join(names)}"
    raise _RuleFileError(f"unknown {kind} {name!r}", hint, *location)


def _line_of(text: str, location: tuple[str, ...]) -> int:
    """Return the line number, from 1, of a table or key.

    tomllib does not report lines, so this searches the text for the usual spellings.
    """
    table, *rest = (re.escape(part) for part in location)
    heading = re.compile(rf"\s*\[{{1,2}}\s*[\"']?{table}[\"']?\s*\]|\s*[\"']?{table}[\"']?\s*[.=]")
    found = 0
    for line, content in enumerate(text.splitlines(), 1):
        if heading.match(content):
            found = line
        elif found and re.match(r"\s*\[", content):
            break
        if found and rest and re.search(rf"(^|[\s.{{,\"']){rest[0]}[\"']?\s*=", content):
            return line
    return found or 1


def _toml_error(error: Exception, text: str) -> str:
    if isinstance(error, RecursionError):
        return "line 1: nested too deeply"
    message = str(error)
    position = re.search(r" \(at line ([0-9]+), column [0-9]+\)$", message)
    if position is None:
        return f"line {len(text.splitlines()) or 1}: not valid TOML: {message}"
    return f"line {position[1]}: not valid TOML: {message[: position.start()]}"
