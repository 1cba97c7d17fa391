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

from .builtin import DEFAULT_RULES, RULE_NAMES
from .rules import Action, Rule, Rules

MAX_SIZE = 1 << 20
"""Maximum size of the file in bytes."""
_RECORDING_MAGIC = (b"SQLite format 3\0", b"PK\3\4")
"""First bytes of recordings and bundles."""
_MAX_RULES = 1_000
_TABLES = ("switches", "allow", "names", "rule")
_ALLOW = ("env", "keys", "hosts", "registries", "values")
_RULE = tuple(field.name for field in fields(Rule))


class _Wrong(Exception):
    """An error in the file, with its location (table, rule number and key) and a hint."""

    def __init__(self, problem: str, hint: str, *where: str | int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.where = where


def read_rules(path: Path) -> Rules:
    """Return the default rules, changed as the file says.

    Raises UsageError that names the file, the line and the reason.
    """
    try:
        content = read_regular(path, MAX_SIZE + 1)
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        raise UsageError(f"{path}: {words}", "name a rule file") from error
    if content.startswith(_RECORDING_MAGIC):
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
        return _rules(tomllib.loads(text), path.name)
    except _Wrong as wrong:
        line = _line(text, wrong.where)
        raise UsageError(f"{path}: line {line}: {wrong.problem}", wrong.hint) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            f"{path}: {_toml_words(error, text)}", "see docs/redaction.md for the format"
        ) from error


def _rules(content: dict[str, object], name: str) -> Rules:
    for table in content:
        _check_known(table, _TABLES, "table", table)
    switches = _table(content, "switches")
    on = set(DEFAULT_RULES)
    for switch, value in switches.items():
        _check_known(switch, RULE_NAMES, "switch", "switches", switch)
        if not isinstance(value, bool):
            raise _Wrong(f"{switch} is neither true nor false", "", "switches", switch)
        (on.add if value else on.discard)(switch)
    allow = _table(content, "allow")
    for key in allow:
        _check_known(key, _ALLOW, "list", "allow", key)
    names = _table(content, "names")
    for key in names:
        _check_known(key, ("nodes",), "list", "names", key)
    given = content.get("rule", [])
    if not isinstance(given, list) or not all(isinstance(rule, dict) for rule in given):
        raise _Wrong("rule is not a list of tables", "write [[rule]]", "rule")
    if len(given) > _MAX_RULES:
        raise _Wrong(f"more than {_MAX_RULES} rules", "", "rule", _MAX_RULES)
    nodes = _texts(names, "names", "nodes")
    return Rules(
        on=frozenset(on | {"nodes"} if nodes and "nodes" not in switches else on),
        rules=tuple(
            _rule(cast("dict[str, object]", rule), number) for number, rule in enumerate(given)
        ),
        env=_texts(allow, "allow", "env"),
        keys=_texts(allow, "allow", "keys"),
        hosts=_texts(allow, "allow", "hosts"),
        registries=_texts(allow, "allow", "registries"),
        values=_texts(allow, "allow", "values"),
        nodes=nodes,
        source=name,
    )


def _rule(given: dict[str, object], number: int) -> Rule:
    for key, value in given.items():
        _check_known(key, _RULE, "rule key", "rule", number, key)
        if not isinstance(value, str) or not value:
            raise _Wrong(
                f"{key} is not a non-empty string", f'write {key} = "…"', "rule", number, key
            )
    texts = cast("dict[str, str]", given)
    name = texts.get("name")
    if name is None:
        raise _Wrong("this rule has no name", 'write name = "…"', "rule", number)
    if name in RULE_NAMES:
        raise _Wrong(
            f"{name!r} is the name of a built-in rule",
            "choose another name, or set the built-in rule in [switches]",
            "rule",
            number,
            "name",
        )
    action = texts.get("action", "replace")
    if action not in list(Action):
        raise _Wrong(
            f"{action!r} is not an action", 'write "replace" or "keep"', "rule", number, "action"
        )
    if not {"path", "key", "value"} & texts.keys():
        raise _Wrong(
            f"the rule {name!r} has no condition", "add path, key or value", "rule", number
        )
    for key in "key", "value":
        pattern = texts.get(key)
        if pattern is not None:
            _check_pattern(pattern, number, key)
    return Rule(
        name,
        Action(action),
        path=texts.get("path", ""),
        key=texts.get("key", ""),
        value=texts.get("value", ""),
    )


def _check_pattern(pattern: str, number: int, key: str) -> None:
    from .re2_patterns import compiled

    try:
        found = compiled(pattern)
    except re2.error as error:
        (said,) = error.args
        words = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise _Wrong(
            f"invalid regular expression: {words}", "use RE2 syntax", "rule", number, key
        ) from None
    if key == "value" and found.fullmatch("") is not None:
        raise _Wrong("this expression matches the empty string", "", "rule", number, key)


def _table(content: dict[str, object], name: str) -> dict[str, object]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise _Wrong(f"{name} is not a table", f"write [{name}] on a line of its own", name)
    return cast("dict[str, object]", table)


def _texts(table: dict[str, object], *where: str) -> tuple[str, ...]:
    key = where[-1]
    given = table.get(key, [])
    if not isinstance(given, list) or not all(isinstance(text, str) and text for text in given):
        raise _Wrong(
            f"{key} is not a list of non-empty strings", f'write {key} = ["…", "…"]', *where
        )
    return tuple(cast("list[str]", given))


def _check_known(name: str, known: Collection[str], what: str, *where: str | int) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}"
    raise _Wrong(f"unknown {what} {name!r}", hint, *where)


def _line(text: str, where: tuple[str | int, ...]) -> int:
    """Return the line number, from 1, of a table, rule or key.

    tomllib does not report lines, so this searches the text for the usual spellings.
    """
    table, *rest = where
    number = rest.pop(0) if rest and isinstance(rest[0], int) else 0
    heading = re.compile(rf"\s*\[{{1,2}}\s*[\"']?{re.escape(str(table))}[\"']?\s*\]")
    inline = re.compile(rf"\s*[\"']?{re.escape(str(table))}[\"']?\s*[.=]")
    seen = -1
    found = 0
    for line, content in enumerate(text.splitlines(), 1):
        if heading.match(content):
            seen += 1
            if seen == number:
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


def _toml_words(error: Exception, text: str) -> str:
    if isinstance(error, RecursionError):
        return "line 1: nested too deeply"
    words = str(error)
    at = re.search(r" \(at line ([0-9]+), column [0-9]+\)$", words)
    if at is None:
        return f"line {len(text.splitlines()) or 1}: not valid TOML: {words}"
    return f"line {at[1]}: not valid TOML: {words[: at.start()]}"
