# SPDX-License-Identifier: Apache-2.0
"""Redact fields: variables, annotations, labels, arguments, options, names, ids and images."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nri_scope.nri.changes import REQUIRED_PLUGINS

from . import texts
from .builtin import BuiltIn
from .engine import Engine
from .harmless import KEPT_KEYS, KEPT_VARIABLES, NAMESPACES, is_harmless
from .key_names import PROSE_WORDS, Certainty, must_replace, names_node
from .names import NameKind
from .rules import glob
from .tokens import NAMES_SCOPE, is_local, is_token

_KEY = re.compile(r"-?[A-Za-z0-9_./*-]{1,316}")
_ITEM = re.compile(r"(-{0,2}[A-Za-z_][A-Za-z0-9_.-]{0,100}=)(.+)", re.DOTALL)
_SHELL = re.compile(r"(?:^|[\0/])(?:ba|da|a|k|mk|z)?sh(?:\0[^\0]*)?\0-[a-z]*c\Z")
_BARE_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]{2,40}")
_ID = re.compile(r"[0-9a-f-]{8,128}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_PLUGINS = re.compile(r"[A-Za-z0-9_.+\s,'\"\[\]-]{1,4096}")
"""A list of names in YAML or JSON."""
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}")
_DIGEST = re.compile(r"@[a-z0-9+._-]{3,20}:[0-9a-fA-F]{32,}$")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,299}")
_PARTS_OF_IMAGE = re.compile(r"[/:@]")
SWITCHES = {
    kind: BuiltIn(f"{kind}s")
    for kind in (NameKind.POD, NameKind.NAMESPACE, NameKind.CONTAINER, NameKind.NODE)
}
"""Rules that replace names, off by default."""
_KNOWN_KEYS: dict[str, NameKind | str] = {
    key: kind
    for kind, keys in {
        NameKind.POD: "io.kubernetes.pod.name io.kubernetes.cri.sandbox-name "
        "io.kubernetes.cri-o.KubeName",
        NameKind.NAMESPACE: "io.kubernetes.pod.namespace io.kubernetes.cri.sandbox-namespace "
        "io.kubernetes.cri-o.Namespace",
        NameKind.CONTAINER: "io.kubernetes.container.name io.kubernetes.cri.container-name",
        "image": "io.kubernetes.cri.image-name io.kubernetes.cri.podsandbox.image-name "
        "io.kubernetes.cri-o.Image io.kubernetes.cri-o.ImageName io.kubernetes.cri-o.ImageRef "
        "io.kubernetes.cri-o.UserRequestedImage io.kubernetes.cri-o.SomeNameOfTheImage",
        "id": "io.kubernetes.pod.uid io.kubernetes.cri.sandbox-id io.kubernetes.cri.sandbox-uid "
        "io.kubernetes.cri-o.ContainerID io.kubernetes.cri-o.SandboxID "
        "io.kubernetes.cri-o.SandboxName",
    }.items()
    for key in keys.split()
}
"""Annotations and labels in which runtimes and the kubelet repeat other fields' values."""


# Trusted patterns, for which Python's expressions are faster.
_KEPT_KEYS = re.compile("|".join(map(glob, sorted(KEPT_KEYS))))
_KEPT_VARIABLES = re.compile("|".join(map(glob, sorted(KEPT_VARIABLES))))


# -- keys and their values ------------------------------------------------------------------


def redact_key(engine: Engine, key: str, place: str) -> str:
    """Return a key, which programs look for; only one that is no identifier is redacted."""
    key = engine.redact_hidden_names(key, place)
    return engine.keep(key) if _KEY.fullmatch(key) else engine.redact_text(key, place)


def redact_variable(engine: Engine, entry: str, place: str) -> str:
    """Redact a variable such as ``NAME=value``."""
    name, equals, value = entry.partition("=")
    if not equals or _KEY.fullmatch(name) is None:
        return engine.redact_text(entry, place)
    shown = redact_key(engine, name, place)
    return f"{shown}={redact_variable_value(engine, name, value, f'{place}.{shown}')}"


def redact_variable_value(engine: Engine, name: str, value: str, place: str) -> str:
    """Redact the value of the variable ``name``; ``place`` includes the name."""
    return _redact_value(engine, name, value, place, _KEPT_VARIABLES, is_variable=True)


def redact_keyed_value(engine: Engine, key: str, value: str, place: str) -> str:
    """Redact the value of an annotation or label."""
    key = key.removeprefix("-")
    if key.startswith(REQUIRED_PLUGINS) and _PLUGINS.fullmatch(value) is not None:
        return keep_value(engine, value, place)
    kind = _KNOWN_KEYS.get(key)
    if isinstance(kind, NameKind):
        return redact_name(engine, kind, value, place)
    if kind is not None:
        return (redact_image if kind == "image" else redact_id)(engine, value, place)
    kept = _KEPT_KEYS if _LABEL.fullmatch(value) is not None else None
    return _redact_value(engine, key, value, place, kept)


def _redact_value(
    engine: Engine,
    key: str,
    value: str,
    place: str,
    kept: re.Pattern[str] | None,
    *,
    is_variable: bool = False,
) -> str:
    if not value or is_token(value):
        return value
    if engine.keeps(key, is_variable=is_variable) or (
        kept and kept.fullmatch(key) is not None and not engine.certainty_of(key)
    ):
        return keep_value(engine, value, place)
    if engine.is_on(BuiltIn.NODES) and names_node(key) and not is_harmless(value):
        return engine.replace(BuiltIn.NODES, value, place, NAMES_SCOPE.name)
    return texts.redact_keyed(engine, key, value, place)


def keep_value(engine: Engine, value: str, place: str) -> str:
    """Return a value that stays for its key, without the names that are replaced everywhere."""
    return engine.keep(engine.redact_hidden_names(value, place))


def redact_items(engine: Engine, items: Sequence[str], place: str) -> list[str]:
    """Redact arguments or options: the value of a credential is in its item, or in the next."""
    redacted: list[str] = []
    key = ""
    for number, item in enumerate(items):
        # The item of a script may begin with a variable: sh -c 'PASSWORD=… exec app'
        is_after_c = number > 1 and items[number - 1][-1:] == "c"
        is_script = is_after_c and _SHELL.search("\0".join(items[max(0, number - 4) : number]))
        pair = None if is_script else _ITEM.fullmatch(item)
        kept_key = pair[1].rstrip("=") if pair is not None else key if item[:1] != "-" else ""
        if kept_key and engine.keeps(kept_key):
            redacted.append(keep_value(engine, item, place))
            key = ""
            continue
        certainty = engine.certainty_of(key) if key else Certainty.NONE
        is_option = item[:1] == "-"
        is_short = len(item) < 3 or item[1] == "-"
        is_other = is_option and (certainty is not Certainty.SURE or is_short)
        if certainty and not is_other and must_replace(key, item, certainty):
            redacted.append(engine.replace(BuiltIn.CREDENTIAL_KEYS, item, place))
            key = ""
            continue
        if pair is not None and must_replace(
            pair[1], pair[2], engine.certainty_of(pair[1].rstrip("="))
        ):
            redacted.append(pair[1] + engine.replace(BuiltIn.CREDENTIAL_KEYS, pair[2], place))
        else:
            redacted.append(engine.redact_text(item, place))
        # The first item is a program.
        is_bare = len(redacted) > 1 and item not in PROSE_WORDS and _BARE_KEY.fullmatch(item)
        needed = Certainty.LIKELY if is_option else Certainty.SURE
        is_key = pair is None and (is_option or is_bare)
        is_known = engine.certainty_of(item) >= needed or (is_option and engine.keeps(item))
        key = item if is_key and is_known else ""
    return redacted


def redact_map(engine: Engine, mapping: Mapping[str, str], place: str) -> dict[str, str]:
    """Redact annotations or labels."""
    redacted: dict[str, str] = {}
    for key, value in sorted(mapping.items()):
        shown = redact_key(engine, key, place)
        redacted[shown] = redact_keyed_value(engine, key, value, f"{place}.{shown}")
    return redacted


# -- names ----------------------------------------------------------------------------------


def redact_id(engine: Engine, value: str, place: str) -> str:
    """Return an id, which stays if it has the form of a name."""
    return redact_name(engine, NameKind.RUNTIME, value, place)


def redact_name(engine: Engine, kind: NameKind, value: str, place: str) -> str:
    """Redact the name of a pod, namespace, container, plugin, runtime or node."""
    if not value or is_token(value):
        return value
    switch = SWITCHES.get(kind)
    if switch and engine.is_on(switch) and not (kind is NameKind.NAMESPACE and value in NAMESPACES):
        return engine.replace(switch, value, place, NAMES_SCOPE.name)
    with engine.within(NAMES_SCOPE):
        if kind is NameKind.NODE or _NAME.fullmatch(value) is None:
            return engine.redact_text(value, place)
        return keep_value(engine, value, place)


def note_name(engine: Engine, kind: NameKind, value: str) -> None:
    """Note a name, to show or to replace it wherever it stands."""
    switch = SWITCHES.get(kind)
    if not switch or not engine.is_on(switch):
        engine.show(value, everywhere=kind not in {NameKind.POD, NameKind.CONTAINER})
    elif value and not is_token(value) and value not in NAMESPACES:
        engine.hide(value, switch)


def note_id(engine: Engine, value: str) -> None:
    """Note an id, which texts may show, also its beginning."""
    if _ID.fullmatch(value) is not None:
        for text in {value, value[:12], value[:13]}:
            engine.show(text, everywhere=True)


def note_values(engine: Engine, mapping: Mapping[str, str]) -> None:
    """Note the names and ids in annotations and labels."""
    for key, value in mapping.items():
        kind = _KNOWN_KEYS.get(key)
        if isinstance(kind, NameKind):
            note_name(engine, kind, value)
        elif kind == "image":
            note_image(engine, value)
        elif kind == "id":
            note_id(engine, value)
        elif _LABEL.fullmatch(value) and _KEPT_KEYS.fullmatch(key):
            engine.show(value)


# -- images ---------------------------------------------------------------------------------


def redact_image(engine: Engine, reference: str, place: str) -> str:
    """Redact an image reference: its login, and its host unless the registry is public."""
    login, rest = _split_login(reference)
    if login:
        # Such a reference cannot be pulled, but may occur.
        token = engine.replace(BuiltIn.URL_PASSWORDS, login, place)
        return f"{token}@{redact_image(engine, rest, place)}"
    if _IMAGE.fullmatch(reference) is None:
        return engine.redact_text(reference, place)
    reference = engine.redact_hidden_names(reference, place)
    registry, slash, rest = _split_registry(reference)
    host, colon, port = registry.partition(":")
    if host == "localhost" or is_token(host) or not engine.is_on(BuiltIn.REGISTRIES):
        return engine.keep(reference)
    if colon and not port.isdigit():
        # Not a port: host and port may be user and password.
        return f"{engine.replace(BuiltIn.REGISTRIES, registry, place)}{slash}{rest}"
    if host and not engine.is_allowed_host(host) and not is_local(host):
        host = engine.replace(BuiltIn.REGISTRIES, host, place)
    return f"{host}{colon}{port}{slash}{engine.keep(rest)}"


def note_image(engine: Engine, reference: str) -> None:
    """Note an image's repository, tag and digest, which texts about its pod may show."""
    if _IMAGE.fullmatch(reference) is not None and not _split_login(reference)[0]:
        for part in _PARTS_OF_IMAGE.split(_split_registry(reference)[2]):
            engine.show(part)


def _split_login(reference: str) -> tuple[str, str]:
    """Split a reference at the @ before its host; the @ of a digest does not count."""
    digest = _DIGEST.search(reference)
    end = digest.start() if digest is not None else len(reference)
    pos = reference.rfind("@", 0, end)
    return (reference[:pos], reference[pos + 1 :]) if pos > 0 else ("", reference)


def _split_registry(reference: str) -> tuple[str, str, str]:
    first, slash, rest = reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, slash, rest
    return "", "", reference
