# SPDX-License-Identifier: Apache-2.0
"""Parse the configuration of a launched logger: YAML in the Configure request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.errors import UsageError
from nri_scope.filter import Filter
from nri_scope.filter import parse as parse_filter
from nri_scope.filter.quantity import parse_duration, parse_size
from nri_scope.nri.events import Event, parse_events
from nri_scope.recorder.ring import MIN_SIZE

from .default_file import SUFFIX, host_name

if TYPE_CHECKING:
    from nri_scope.share.redaction.rules import Rules

LAUNCHED_FOLDER = Path("/var/lib/nri-scope")
"""Folder of recordings of launched plugins, whose working directory is the runtime's."""

V01_SPOOL = LAUNCHED_FOLDER / "v01"
"""Spool of the requests of NRI 0.1."""

DEFAULT_MAX_SIZE = 256 << 20
"""Default size limit in bytes: a launched logger runs unattended, so its recording is a ring."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a launched logger. Restarts continue the same file instead of adding files."""

    output: Path = LAUNCHED_FOLDER / f"nri-{host_name()}{SUFFIX}"
    max_size: int | None = DEFAULT_MAX_SIZE
    max_age: float | None = None
    """Maximum age of events in seconds."""
    events: frozenset[Event] | None = None
    where: Filter | None = None
    validate: bool = False
    redact: Rules | None = None
    """Rules for redaction before events are written; None for no redaction."""


def parse_settings(text: str) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings in ``text``, and a message for each part that could not be used.

    Never raises: a launched plugin that rejected its configuration would record nothing, and the
    runtime would discard the error message.
    """
    import yaml

    if not text.strip():
        return Settings(), ()
    # If invalid YAML mentions redaction, redact rather than record secrets.
    fallback = Settings(redact=_rules(True)) if "redact" in text else Settings()
    try:
        loaded: object = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: a date or number that Python rejects. RecursionError: deep nesting.
        return fallback, (f"configuration: not YAML: {_position_and_problem(error)}",)
    if loaded is None:
        return Settings(), ()
    if not isinstance(loaded, dict):
        return fallback, ("configuration: not a mapping of keys to values",)
    values: dict[str, object] = {}
    problems: list[str] = []
    for key, value in loaded.items():
        reader = _READERS.get(key) if isinstance(key, str) else None
        if reader is None:
            known = ", ".join(field.name for field in fields(Settings))
            problems.append(f"configuration: unknown key {key!r} (known keys: {known})")
            continue
        try:
            values[key] = reader(value)
        except (UsageError, ValueError, RecursionError) as error:
            if key == "redact":
                # If the configuration requests redaction, never record without.
                values[key] = _rules(True)
            default = "rules" if key == "redact" else "value"
            problems.append(f"configuration: {key}: {error}; using the default {default}")
    return Settings(**values), tuple(problems)  # type: ignore[arg-type]


def _position_and_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return place + " ".join(str(getattr(error, "problem", None) or error).split())[:200]


def _path(value: object) -> Path:
    path = Path(value) if isinstance(value, str) and value and "\0" not in value else None
    if path is None or not path.is_absolute():
        raise UsageError(f"{value!r} is not an absolute path")
    return path


def _size(value: object) -> int | None:
    if value in (None, "none"):
        return None
    size = parse_size(str(value)) if isinstance(value, int | str) else None
    if not size:
        raise UsageError(f"{value!r} is not a size such as 500M")
    if size < MIN_SIZE:
        raise UsageError(f"{size} bytes are less than the minimum of {MIN_SIZE}")
    return size


def _age(value: object) -> float | None:
    if value in (None, "none"):
        return None
    nanoseconds = parse_duration(value) if isinstance(value, str) else None
    if not nanoseconds:
        raise UsageError(f"{value!r} is not a duration such as 24h")
    return nanoseconds / 1e9


def _events(value: object) -> frozenset[Event]:
    return parse_events(",".join(map(str, value)) if isinstance(value, list) else str(value))


def _where(value: object) -> Filter:
    return parse_filter(str(value))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{value!r} is neither true nor false")
    return value


def _rules(value: object) -> Rules | None:
    if value is False:
        return None
    from nri_scope.share.redaction.rule_file import read_rules
    from nri_scope.share.redaction.rules import Rules

    if value is True:
        return Rules.DEFAULT
    return read_rules(_path(value))


_READERS: dict[str, Callable[[object], object]] = {
    "output": _path,
    "max_size": _size,
    "max_age": _age,
    "events": _events,
    "where": _where,
    "validate": _flag,
    "redact": _rules,
}
