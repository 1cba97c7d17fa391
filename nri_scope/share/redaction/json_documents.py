# SPDX-License-Identifier: Apache-2.0
"""Redact JSON: specs and configurations from runtimes, and documents in annotations."""

from __future__ import annotations

import json
import math
import re
from itertools import islice
from typing import TYPE_CHECKING, cast

from . import commands, mount_options, value_places
from .credentials import redact_credential, redact_keyed, replace_encoded
from .harmless import is_plain
from .key_names import (
    Certainty,
    certainty_in_list,
    certainty_inside,
    names_credential,
    names_person,
)
from .keyed_credentials import COMMAND_MEMBERS, VALUE_MEMBERS
from .known_values import Strength
from .name_kinds import NameKind
from .tokens import is_token

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain

    from .engine import Engine

MAX_NESTING = 100
"""Maximum nesting, deeper than any spec; values below are replaced as a whole."""

MAX_LENGTH = 1 << 20
"""Maximum number of characters to parse as JSON; parsing blocks all other threads."""
_ENV = frozenset({"env", "envs", "environment"})
_KEYED = frozenset({"annotations", "labels", "podannotations", "matchlabels"})
_IMAGES = frozenset({"image", "imageref", "image_ref", "imagename", "user_specified_image"})
_HOSTS = frozenset({"hostname", "host_name"})
_NAMES = ("name", "key", "Name", "Key")
_ENV_NAME = re.compile(r"[A-Z_][A-Z0-9_]{1,100}")


def redact_json(engine: Engine, text: str, place: str, depth: int) -> str:
    """Redact a text if it is JSON. A finder."""
    if text.lstrip()[:1] not in {"{", "["} or len(text) > MAX_LENGTH:
        return text
    document = parse_json(text)
    if document is None:
        return text
    try:
        redacted = redact_value(engine, document, place, "", depth)
        return text if redacted == document else dump_json(redacted)
    except RecursionError:
        return engine.replace("unreadable", text, Strength.PRIVATE, place)


def parse_json(text: str | bytes) -> Plain:
    """Return the object or array of a JSON text; None for others, or if parsing loses content."""
    try:
        document = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_reject_constant,
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
    depth: int,
    level: int = 0,
    above: Certainty = Certainty.NONE,
) -> Plain:
    """Return ``value`` with tokens in it; ``key`` is the value's key.

    ``above`` is the certainty that follows from the keys of the enclosing objects.
    """
    if level > MAX_NESTING:
        return engine.replace("unreadable", dump_json(value), Strength.PRIVATE, place)
    match value:
        case str():
            return _redact_string(engine, value, place, key, depth, above)
        case dict():
            return _redact_object(engine, value, place, key, depth, level, above)
        case list():
            return _redact_array(engine, value, place, key, depth, level, above)
        case bool() | None:
            return value
        case _:
            redacted = redact_credential(engine, key, str(value), place, above)
            return value if redacted is None else redacted


def _redact_object(
    engine: Engine,
    value: dict[str, Plain],
    place: str,
    key: str,
    depth: int,
    level: int,
    above: Certainty,
) -> Plain:
    kind = key.lower()
    pair = _redact_pair(engine, value, place, key)
    inside = certainty_inside(key, above)
    is_secret = value.get("kind") == "Secret"
    redacted: dict[str, Plain] = {}
    for number, (name, member) in enumerate(value.items()):
        if engine.is_exhausted():
            rest = engine.replace_rest(islice(value, number, None), place)
            redacted[rest] = rest
            break
        if name in pair:
            redacted[name] = pair[name]
            continue
        shown = engine.redact_key(name, place)
        where = f"{place}.{shown}" if place else shown
        if inside is Certainty.FORCED:
            redacted[shown] = redact_value(engine, member, where, name, depth, level + 1, inside)
        elif isinstance(member, str) and kind in _KEYED:
            redacted[shown] = value_places.redact_keyed_value(engine, name, member, where)
        elif isinstance(member, str) and kind in _ENV:
            redacted[shown] = value_places.redact_variable_value(engine, name, member, where)
        else:
            # {"password": {"value": …}}
            is_inner = name.lower() in VALUE_MEMBERS and names_credential(key)
            forced = is_secret and name in {"data", "stringData"}
            redacted[shown] = redact_value(
                engine,
                member,
                where,
                key if is_inner else name,
                depth,
                level + 1,
                Certainty.FORCED if forced else inside,
            )
    return redacted


def _redact_pair(engine: Engine, value: dict[str, Plain], place: str, key: str) -> dict[str, Plain]:
    """Redact a variable such as ``{"name": …, "value": …}``; return {} for other objects."""
    value_key = next(
        (member for member in ("value", "Value") if isinstance(value.get(member), str)), ""
    )
    content = value.get(value_key)
    names = {member: name for member in _NAMES if isinstance(name := value.get(member), str)}
    if not names or not isinstance(content, str):
        return {}
    member = next(
        (member for member, name in names.items() if names_credential(name)), next(iter(names))
    )
    name = names[member]
    if key.lower() in _ENV or _ENV_NAME.fullmatch(name):
        shown = value_places.redact_variable_name(engine, name, place)
        redacted = value_places.redact_variable_value(engine, name, content, f"{place}.{shown}")
    else:
        shown = engine.redact_key(name, place)
        effective_key = name if names_credential(name) or not names_credential(key) else key
        redacted = value_places.redact_keyed_value(
            engine, effective_key, content, f"{place}.{shown}"
        )
    return {member: shown, value_key: redacted}


def _redact_array(
    engine: Engine,
    value: list[Plain],
    place: str,
    key: str,
    depth: int,
    level: int,
    above: Certainty,
) -> Plain:
    kind = key.lower()
    texts = [member for member in value if isinstance(member, str)]
    are_texts = bool(texts) and len(texts) == len(value) and above is not Certainty.FORCED
    if are_texts and kind in COMMAND_MEMBERS:
        return list(commands.redact_arguments(engine, texts, place))
    if are_texts and kind == "options":
        return list(mount_options.redact_options(engine, texts, place))
    inside = certainty_in_list(key, above)
    redacted: list[Plain] = []
    for number, member in enumerate(value):
        if engine.is_exhausted():
            redacted.append(engine.replace_rest((dump_json(one) for one in value[number:]), place))
            break
        if are_texts and kind in _ENV:
            redacted.append(value_places.redact_variable(engine, str(member), place))
        else:
            redacted.append(redact_value(engine, member, place, key, depth, level + 1, inside))
    return redacted


def _redact_string(
    engine: Engine, value: str, place: str, key: str, depth: int, above: Certainty
) -> str:
    kind = key.lower()
    if above is Certainty.FORCED:
        return value if is_token(value.strip()) else replace_encoded(engine, value, place)
    if kind in _IMAGES:
        return value_places.redact_image(engine, value, place)
    if kind in _HOSTS:
        return _redact_hostname(engine, value, place)
    if key:
        redacted = redact_keyed(engine, key, value, place, above)
        if redacted is not None:
            return redacted
        if names_person(key) and engine.is_on("personal-keys") and not is_plain(value):
            return engine.replace_whole("personal-keys", value, Strength.PRIVATE, place)
    return engine.redact_text(value, place, depth + 1)


def _redact_hostname(engine: Engine, value: str, place: str) -> str:
    if engine.known.is_visible(value, engine.scope.pod) or not engine.is_on("host-names"):
        return value_places.redact_name(engine, NameKind.NODE, value, place)
    return engine.replace("host-names", value, Strength.PRIVATE, place)


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


def _reject_constant(constant: str) -> Plain:
    # Python accepts NaN and similar values, which are not valid JSON.
    raise ValueError(constant)


def note_names(engine: Engine, status: dict[str, Plain]) -> None:
    """Note the names in a container's verbose status, or in a request of NRI 0.1, that stay
    visible.
    """
    for spec in (*map(status.get, ("runtimeSpec", "bundleSpec", "config", "spec")), status):
        if not isinstance(spec, dict):
            continue
        for member in "annotations", "labels":
            mapping = spec.get(member)
            if isinstance(mapping, dict):
                value_places.note_map_names(
                    engine,
                    {key: text for key, text in mapping.items() if isinstance(text, str)},
                )
