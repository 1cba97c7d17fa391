# SPDX-License-Identifier: Apache-2.0
"""Redact values by place: variables, annotations, labels, names, ids and images."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from . import option_variables
from .credentials import REFERENCE, apply_user_rules, redact_credential, redact_keyed, redact_node
from .engine import MAX_TEXT
from .free_text import redact_address
from .harmless import (
    ENV_NAMES,
    NAMESPACES,
    REGISTRIES,
    SHOWN_LABELS,
    is_plain,
    is_plain_for,
    is_plain_path,
)
from .key_names import names_node, names_person
from .known_values import Strength
from .name_kinds import NameKind
from .re2_patterns import compiled, glob
from .scope import NAMES_SCOPE
from .tokens import address_of, is_token

if TYPE_CHECKING:
    import re2

    from .engine import Engine

_ENV_NAME = re.compile(r"-?[A-Za-z_][A-Za-z0-9_.-]{0,200}")
_CONSTANT = re.compile(r"[A-Z_][A-Z0-9_]{0,60}")
# tcp://10.0.0.1:443, [::1]:80, 10.0.0.0/16
_ENDPOINT = re.compile(r"(?:[a-z]{2,5}://)?\[?([0-9A-Fa-f.:]+?)\]?(?::[0-9]{1,5})?(?:/[0-9]{1,3})?")
_ID = re.compile(r"[0-9a-f-]{8,128}")
_DIGEST = re.compile(r"@[a-z0-9+._-]{3,20}:[0-9a-fA-F]{32,}$")
_PORT = re.compile(r"[0-9]{1,5}")
_MANIFEST_ANNOTATIONS = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "objectset.rio.cattle.io/applied",
        "kopf.zalando.org/last-handled-configuration",
    }
)
_SWITCHES = {
    NameKind.POD: "pods",
    NameKind.NAMESPACE: "namespaces",
    NameKind.CONTAINER: "containers",
}

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
        "io.kubernetes.cri-o.SandboxName pod-template-hash controller-revision-hash "
        "kubernetes.io/config.hash io.kubernetes.container.hash",
    }.items()
    for key in keys.split()
}
"""Annotations and labels in which runtimes and the kubelet repeat other fields' values."""


# -- environment variables ------------------------------------------------------------------


def redact_variable(engine: Engine, entry: str, place: str) -> str:
    """Redact a variable such as ``NAME=value``."""
    name, equals, value = entry.partition("=")
    if not equals:
        # Not a variable. It stays only if it has the form of a constant's name.
        is_name = _CONSTANT.fullmatch(entry) is not None
        return (
            engine.redact_key(entry, place)
            if is_name
            else redact_variable_value(engine, "", entry, place)
        )
    shown = redact_variable_name(engine, name, place)
    place = f"{place}.{shown}"
    redacted = redact_variable_value(engine, name, value, place)
    if (
        redacted == value
        and len(entry) <= MAX_TEXT
        and engine.is_on("env-values")
        and engine.known.replace(entry)[1]
    ):
        # NAME=value as a whole is a known value, which would be replaced elsewhere.
        redacted = engine.replace("env-values", value, Strength.PRIVATE, place)
    return f"{shown}={redacted}"


def redact_variable_name(engine: Engine, name: str, place: str) -> str:
    """Redact the name of a variable, which stays unchanged if it is a valid name."""
    if not name or is_token(name):
        return name
    if not _ENV_NAME.fullmatch(name):
        return redact_variable_value(engine, "", name, place)
    return engine.redact_key(name, place)


def redact_variable_value(engine: Engine, name: str, value: str, place: str) -> str:
    """Redact the value of the variable ``name``; ``place`` includes the name."""
    if not value or is_token(value):
        return value
    redacted = apply_user_rules(engine, value, place, name)
    if redacted is not None:
        return redacted
    if any(pattern.fullmatch(name) for pattern in _globs(engine.rules.kept_variables)):
        engine.known.mark_visible(value, engine.scope.pod)
        return engine.redact_text(value, place)
    if engine.is_on("nodes") and names_node(name):
        return redact_node(engine, value, place)
    secret = redact_credential(engine, name, value, place)
    if secret is not None:
        return secret
    if is_plain_for(name, value):
        # A version may have the form of an address.
        return engine.redact_key(value, place)
    if (
        not engine.is_on("env-values")
        or _is_plain(name, value)
        or engine.known.is_visible(value, engine.scope.pod)
    ):
        return engine.redact_text(value, place)
    redacted = option_variables.redact_option_variable(engine, name, value, place)
    if redacted is not None:
        return redacted
    return engine.replace_whole("env-values", value, Strength.PRIVATE, place)


@lru_cache(maxsize=8192)
def _is_plain(name: str, value: str) -> bool:
    return (
        is_plain(value)
        or is_plain_path(value)
        or REFERENCE.fullmatch(value) is not None
        or _is_endpoint(value)
        or _is_kept_variable(name)
    )


@lru_cache(maxsize=8192)
def _is_kept_variable(name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in _globs(ENV_NAMES))


def _is_endpoint(value: str) -> bool:
    found = _ENDPOINT.fullmatch(value)
    return found is not None and address_of(found[1]) is not None


@lru_cache(maxsize=16)
def _globs(patterns: tuple[str, ...]) -> tuple[re2._Regexp[str], ...]:
    return tuple(compiled(glob(pattern)) for pattern in patterns)


# -- annotations, labels and other maps -----------------------------------------------------


def redact_map(engine: Engine, mapping: Mapping[str, str], place: str) -> dict[str, str] | None:
    """Redact annotations or labels; return None if nothing changed."""
    redacted: dict[str, str] = {}
    is_changed = False
    pairs = sorted(mapping.items())
    for number, (key, value) in enumerate(pairs):
        if engine.is_exhausted():
            rest = engine.replace_rest((text for pair in pairs[number:] for text in pair), place)
            redacted[rest] = rest
            return redacted
        shown = engine.redact_key(key, place)
        text = redact_keyed_value(engine, key, value, f"{place}.{shown}")
        redacted[shown] = text
        is_changed = is_changed or shown != key or text != value
    return redacted if is_changed else None


def redact_keyed_value(engine: Engine, key: str, value: str, place: str) -> str:
    """Redact the value of an annotation or label."""
    if not value or is_token(value):
        return value
    key = key.removeprefix("-")
    redacted = apply_user_rules(engine, value, place, key)
    if redacted is not None:
        return redacted
    if any(pattern.fullmatch(key) for pattern in _globs(engine.rules.kept_keys)):
        engine.known.mark_visible(value, engine.scope.pod)
        return engine.redact_text(value, place)
    match _KNOWN_KEYS.get(key):
        case NameKind() as kind:
            return redact_name(engine, kind, value, place)
        case "image":
            return redact_image(engine, value, place)
        case "id":
            return redact_id(engine, value, place)
        case _:
            pass
    if key in _MANIFEST_ANNOTATIONS and engine.is_on("secret-annotations"):
        return engine.replace_whole("secret-annotations", value, Strength.SECRET, place)
    credential = redact_keyed(engine, key, value, place)
    if credential is not None:
        return credential
    if names_person(key) and engine.is_on("personal-keys") and not is_plain(value):
        return engine.replace_whole("personal-keys", value, Strength.PRIVATE, place)
    return engine.redact_text(value, place)


# -- names ----------------------------------------------------------------------------------


def redact_id(engine: Engine, value: str, place: str) -> str:
    """Redact an id, which stays unchanged if it is a valid id."""
    with engine.within(NAMES_SCOPE):
        if _ID.fullmatch(value):
            # An id contains the pod's name if the pod has no UID.
            return engine.known.replace(value)[0] if _replaces_names(engine) else value
        return engine.redact_key(value, place)


def redact_name(engine: Engine, kind: NameKind, value: str, place: str) -> str:
    """Redact the name of a pod, namespace, container, plugin, runtime or node."""
    if not value or is_token(value):
        return value
    switch = _SWITCHES.get(kind, "")
    if switch and engine.is_on(switch) and not (kind is NameKind.NAMESPACE and value in NAMESPACES):
        return engine.replace(switch, value, Strength.NAME, place)
    with engine.within(NAMES_SCOPE):
        if kind is NameKind.NODE:
            is_on = engine.is_on("nodes")
            return redact_node(engine, value, place) if is_on else engine.redact_text(value, place)
        return engine.redact_key(value, place)


def _replaces_names(engine: Engine) -> bool:
    return any(engine.is_on(switch) for switch in (*_SWITCHES.values(), "nodes"))


def note_name(engine: Engine, kind: NameKind | None, value: str) -> None:
    """Mark a name as visible, or remember it for replacement; ``kind`` is None for an id."""
    switch = _SWITCHES.get(kind, "") if kind is not None else ""
    if not switch or not engine.is_on(switch):
        pod = engine.scope.pod
        if not engine.known.is_marked_visible(value, pod) and engine.leaves_unchanged(value):
            engine.known.mark_visible(value, pod)
    elif value and not is_token(value) and value not in NAMESPACES:
        engine.known.add(value, switch, Strength.NAME)


def note_map_names(engine: Engine, mapping: Mapping[str, str]) -> None:
    """Note the names in annotations and labels; see `note_name`."""
    for key, value in mapping.items():
        kind = _KNOWN_KEYS.get(key)
        if isinstance(kind, NameKind):
            note_name(engine, kind, value)
        elif kind == "image":
            note_image(engine, value)
        elif kind == "id" or (len(value) <= 63 and SHOWN_LABELS.fullmatch(key)):
            engine.known.mark_visible(value, engine.scope.pod)


# -- images ---------------------------------------------------------------------------------


def redact_image(engine: Engine, reference: str, place: str) -> str:
    """Redact an image reference: its login, and its host unless the registry is public."""
    login, rest = _split_login(reference)
    if login and engine.is_on("url-passwords"):
        # Such a reference cannot be pulled, but may occur.
        user, colon, password = login.partition(":")
        if not colon:
            user, password = "", user
        elif not is_token(user):
            user = engine.replace("url-passwords", user, Strength.PRIVATE, place)
        if not is_token(password):
            password = engine.replace("url-passwords", password, Strength.SECRET, place)
        return f"{user}{colon}{password}@{redact_image(engine, rest, place)}"
    registry, rest = _split_registry(reference)
    if not registry or is_token(registry) or not engine.is_on("registries"):
        return engine.redact_key(reference, place)
    host, colon, port = registry.partition(":")
    if colon and not _PORT.fullmatch(port):
        # Not a port: host and port may be user and password.
        if not is_token(port):
            port = engine.replace("registries", port, Strength.SECRET, place)
        if is_token(host):
            return f"{host}:{port}/{engine.redact_key(rest, place)}"
    if host == "localhost" or any(
        pattern.fullmatch(host) for pattern in _globs((*REGISTRIES, *engine.rules.kept_registries))
    ):
        return engine.redact_key(f"{host}{colon}{port}/{rest}", place)
    if address_of(host) is not None:
        host = redact_address(engine, host, place)
    else:
        host = engine.replace("registries", host, Strength.PRIVATE, place)
    return f"{host}{colon}{port}/{engine.redact_key(rest, place)}"


def _split_login(reference: str) -> tuple[str, str]:
    """Split a reference at the @ before its host; the @ of a digest does not count."""
    digest = _DIGEST.search(reference)
    end = digest.start() if digest is not None else len(reference)
    pos = reference.rfind("@", 0, end)
    return (reference[:pos], reference[pos + 1 :]) if pos > 0 else ("", reference)


def note_image(engine: Engine, reference: str) -> None:
    """Mark an image's repository and tag as visible."""
    rest = _split_registry(_split_login(reference)[1])[1]
    if len(rest) <= 300:
        engine.known.mark_visible(rest, engine.scope.pod)


def _split_registry(reference: str) -> tuple[str, str]:
    first, slash, rest = reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return "", reference
