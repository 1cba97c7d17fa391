# SPDX-License-Identifier: Apache-2.0
"""Redact JSON: specs and configurations from runtimes, and documents in annotations."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import cast

from nri_scope.nri.plain import Plain, refuse_constant

from . import fields, texts
from .builtin import BuiltIn
from .engine import Engine
from .key_names import Certainty, certainty_below, must_replace
from .names import NameKind

_MAX_NESTING = 60
"""Maximum nesting, deeper than any spec; values below are replaced as a whole."""
_KEYED = frozenset({"annotations", "labels", "podannotations", "matchlabels"})
_ENV = frozenset({"env", "envs", "environment"})
_VALUES = frozenset({"value", "Value", "content"})
_NAMES = ("name", "key", "Name", "Key")
_IMAGES = frozenset({"image", "imageref", "image_ref", "imagename", "user_specified_image"})


def redact_json(engine: Engine, text: str, place: str) -> str | None:
    """Return a redacted JSON text; None for any other text."""
    document = parse_json(text)
    if document is None:
        return None
    redacted = redact_value(engine, document, place, "")
    return text if redacted == document else dump_json(redacted)


def parse_json(text: str | bytes) -> Plain:
    """Return the object or array of a JSON text; None for others, or if parsing loses content."""
    try:
        document = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=refuse_constant,
            parse_float=_parse_finite,
        )
    except (ValueError, RecursionError):
        return None
    return cast("Plain", document) if isinstance(document, dict | list) else None


def dump_json(value: Plain) -> str:
    """Return a value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def redact_value(
    engine: Engine,
    value: Plain,
    place: str,
    key: str,
    above: Certainty = Certainty.NONE,
    level: int = 0,
) -> Plain:
    """Return the value of a key with tokens in it.

    ``above`` is the certainty that it is a credential by the keys of the enclosing objects.
    """
    match value:
        case dict() | list() if level > _MAX_NESTING:
            return engine.replace(BuiltIn.UNREADABLE, dump_json(value), place)
        case dict():
            return _redact_object(engine, value, place, key, above, level)
        case list():
            return _redact_array(engine, value, place, key, above, level)
        case str() if key and engine.keeps(key):
            return fields.keep_value(engine, value, place)
        case str():
            return _redact_string(engine, value, place, key, above)
        case bool() | None:
            return value
        case _:
            certainty = max(above, engine.certainty_of(key))
            if must_replace(key, str(value), certainty) and not engine.keeps(key):
                return engine.replace(BuiltIn.CREDENTIAL_KEYS, str(value), place)
            shown = engine.redact_hidden_names(str(value), place, engine.repeated)
            return value if shown == str(value) else shown


def _redact_object(
    engine: Engine, value: dict[str, Plain], place: str, key: str, above: Certainty, level: int
) -> Plain:
    kind = key.lower()
    inside = certainty_below(key, above)
    if value.get("kind") == "Secret":
        inside = Certainty.SURE
    # {"name": "DB_PASSWORD", "value": …}, {"password": {"value": …}}
    has_value = not value.keys().isdisjoint(_VALUES)
    names = [one for name in _NAMES if isinstance(one := value.get(name), str)] if has_value else []
    named = next((name for name in names if engine.certainty_of(name)), names[0] if names else key)
    redacted: dict[str, Plain] = {}
    for name, member in value.items():
        shown = fields.redact_key(engine, name, place)
        where = f"{place}.{shown}" if place else shown
        if isinstance(member, str) and has_value and name in _NAMES:
            redacted[shown] = fields.redact_key(engine, member, where)
        elif isinstance(member, str) and kind in _KEYED:
            redacted[shown] = fields.redact_keyed_value(engine, name, member, where)
        else:
            key_of_member = named if name in _VALUES else name
            redacted[shown] = redact_value(engine, member, where, key_of_member, inside, level + 1)
    return redacted


def _redact_array(
    engine: Engine, value: list[Plain], place: str, key: str, above: Certainty, level: int
) -> Plain:
    has_only_texts = all(isinstance(member, str) for member in value)
    if not above and key.lower() in _ENV and has_only_texts:
        return [fields.redact_variable(engine, str(member), place) for member in value]
    if has_only_texts and not (above or engine.certainty_of(key) or engine.keeps(key)):
        return list(fields.redact_items(engine, cast("Sequence[str]", value), place))
    return [redact_value(engine, member, place, key, above, level + 1) for member in value]


def _redact_string(engine: Engine, value: str, place: str, key: str, above: Certainty) -> str:
    if key.lower() in _IMAGES:
        return fields.redact_image(engine, value, place)
    if above and must_replace(key, value, above):
        return engine.replace(BuiltIn.CREDENTIAL_KEYS, value, place)
    if not key:
        return engine.redact_text(value, place)
    if key.lower() == "hostname":
        return fields.redact_name(engine, NameKind.NODE, value, place)
    return texts.redact_keyed(engine, key, value, place)


def _unique_keys(pairs: list[tuple[str, Plain]]) -> dict[str, Plain]:
    members = dict(pairs)
    if len(members) != len(pairs):
        # Parsing drops all but the last value, which would then not be redacted.
        raise ValueError("duplicate key")
    return members


def _parse_finite(number: str) -> float:
    number_read = float(number)
    if not math.isfinite(number_read):
        # Such a number could not be written as JSON again.
        raise ValueError(number)
    return number_read
