# SPDX-License-Identifier: Apache-2.0
"""Read a rule file: TOML, parsed strictly, since an ignored typo would leave a secret visible."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import cast

import re2

from nri_scope.errors import UsageError
from nri_scope.recording.regular_files import read_regular
from nri_scope.recording.schema_check import FIRST_BYTES

from .builtin import DEFAULT_RULES, RULE_NAMES
from .rules import Action, Rule, Rules

MAX_SIZE = 1 << 20
"""Maximum size of the file in bytes."""
_MAX_RULES = 1_000
_TABLES = ("switches", "allow", "names", "rule")
_ALLOW_KEYS = ("env", "keys", "hosts", "registries", "values")
_RULE_KEYS = tuple(field.name for field in fields(Rule))


class _RuleFileError(Exception):
    """An error in the file, with its location (table, rule number and key) and a hint."""

    def __init__(self, problem: str, hint: str, *location: str | int) -> None:
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
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{path}: {reason}", "name a rule file") from error
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
        _check_name(table, _TABLES, "table", table)
    switches = _table_of(content, "switches")
    enabled = set(DEFAULT_RULES)
    for switch, value in switches.items():
        _check_name(switch, RULE_NAMES, "switch", "switches", switch)
        if not isinstance(value, bool):
            raise _RuleFileError(f"{switch} is neither true nor false", "", "switches", switch)
        (enabled.add if value else enabled.discard)(switch)
    allow = _table_of(content, "allow")
    for key in allow:
        _check_name(key, _ALLOW_KEYS, "list", "allow", key)
    names = _table_of(content, "names")
    for key in names:
        _check_name(key, ("nodes",), "list", "names", key)
    rules = content.get("rule", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise _RuleFileError("rule is not a list of tables", "write [[rule]]", "rule")
    if len(rules) > _MAX_RULES:
        raise _RuleFileError(f"more than {_MAX_RULES} rules", "", "rule", _MAX_RULES)
    nodes = _strings(names, "names", "nodes")
    return Rules(
        enabled=frozenset(enabled | {"nodes"} if nodes and "nodes" not in switches else enabled),
        user_rules=tuple(
            _parse_rule(cast("dict[str, object]", rule), number)
            for number, rule in enumerate(rules)
        ),
        kept_variables=_strings(allow, "allow", "env"),
        kept_keys=_strings(allow, "allow", "keys"),
        kept_hosts=(*_strings(allow, "allow", "hosts"), *_strings(allow, "allow", "registries")),
        kept_values=_strings(allow, "allow", "values"),
        node_names=nodes,
        source=name,
    )


def _parse_rule(entries: dict[str, object], number: int) -> Rule:
    for key, value in entries.items():
        _check_name(key, _RULE_KEYS, "rule key", "rule", number, key)
        if not isinstance(value, str) or not value:
            raise _RuleFileError(
                f"{key} is not a non-empty string", f'write {key} = "…"', "rule", number, key
            )
    strings = cast("dict[str, str]", entries)
    name = strings.get("name")
    if name is None:
        raise _RuleFileError("this rule has no name", 'write name = "…"', "rule", number)
    if name in RULE_NAMES:
        raise _RuleFileError(
            f"{name!r} is the name of a built-in rule",
            "choose another name, or set the built-in rule in [switches]",
            "rule",
            number,
            "name",
        )
    action = strings.get("action", "replace")
    if action not in list(Action):
        raise _RuleFileError(
            f"{action!r} is not an action", 'write "replace" or "keep"', "rule", number, "action"
        )
    if not {"path", "key", "value"} & strings.keys():
        raise _RuleFileError(
            f"the rule {name!r} has no condition", "add path, key or value", "rule", number
        )
    for key in "key", "value":
        pattern = strings.get(key)
        if pattern is not None:
            _check_pattern(pattern, number, key)
    return Rule(
        name,
        Action(action),
        path=strings.get("path", ""),
        key=strings.get("key", ""),
        value=strings.get("value", ""),
    )


def _check_pattern(pattern: str, number: int, key: str) -> None:
    from .re2_patterns import compiled

    try:
        expression = compiled(pattern)
    except re2.error as error:
        (message,) = error.args
        words = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        raise _RuleFileError(
            f"invalid regular expression: {words}", "use RE2 syntax", "rule", number, key
        ) from None
    if key == "value" and expression.fullmatch("") is not None:
        raise _RuleFileError("this expression matches the empty string", "", "rule", number, key)


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


def _check_name(name: str, names: Collection[str], kind: str, *location: str | int) -> None:
    if name in names:
        return
    matches = difflib.get_close_matches(name, names, 1, 0.5)
    hint = f"did you mean {matches[0]}?" if matches else f"choose one of {', '.join(names)}"
    raise _RuleFileError(f"unknown {kind} {name!r}", hint, *location)


def _line_of(text: str, location: tuple[str | int, ...]) -> int:
    """Return the line number, from 1, of a table, rule or key.

    tomllib does not report lines, so this searches the text for the usual spellings.
    """
    table, *rest = location
    number = rest.pop(0) if rest and isinstance(rest[0], int) else 0
    heading = re.compile(rf"\s*\[{{1,2}}\s*[\"']?{re.escape(str(table))}[\"']?\s*\]")
    inline = re.compile(rf"\s*[\"']?{re.escape(str(table))}[\"']?\s*[.=]")
    number_found = -1
    found = 0
    for line, content in enumerate(text.splitlines(), 1):
        if heading.match(content):
            number_found += 1
            if number_found == number:
                found = line
            elif found:
                break
        elif inline.match(content) and not found:
            found = line
        elif re.match(r"\s*\[", content) and found and rest:
            break
        if (
            found
            and rest
            and re.search(rf"(^|[\s.{{,\"']){re.escape(str(rest[0]))}[\"']?\s*=", content)
        ):
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
