# SPDX-License-Identifier: Apache-2.0
"""Replace what is not known to be harmless with tokens, in all kinds of content of a recording."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence, Set

from google.protobuf.message import Message

from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, EVENT_TEXTS
from nri_scope.nri import v01
from nri_scope.nri.events import METHODS, decode
from nri_scope.nri.plain import Plain
from nri_scope.recording.reading.event_messages import requested_container_id
from nri_scope.specs.json_spec import pointer as joined
from nri_scope.specs.json_spec import split

from . import fields, messages, texts
from .builtin import BuiltIn
from .engine import MAX_WORDS, REPEATED, Engine
from .json_documents import dump_json, parse_json, redact_json, redact_value
from .key_values import QUOTE
from .names import SESSION_NAMES, NameKind
from .rules import Rules
from .tokens import is_token

_WORD = re.compile(r"[A-Za-z]{1,40}|[0-9]{1,9}")
_NUMBERED = re.compile(r"(.*?)((?:#[0-9]{1,9})?)", re.DOTALL)
_PLUGIN = re.compile(r"([0-9]{2}-)(.*)", re.DOTALL)
_PENDING = re.compile(rf"[\w.-]{{1,64}}{QUOTE}?[ \t]*:?[ \t]*$")


class Redactor:
    """Redacts one recording, or several recordings that must get the same tokens.

    Equal originals get equal tokens in texts about one container, wherever they occur; see `Scope`.
    No content of a recording raises an exception. Not thread-safe.

    Texts show the names that are noted before (`note_names`), and those in the messages so far.
    """

    def __init__(self, rules: Rules, key: bytes) -> None:
        """``key`` has 32 bytes and is never written."""
        self.rules = rules
        self._engine = Engine(rules, key, _cut)
        self.tally = self._engine.tally
        """The counts of replaced values by rule and place."""
        self.known_values: Set[str] = self._engine.known[BuiltIn.CREDENTIAL_KEYS]
        """The values of known words that were replaced after a key, and may stay elsewhere."""
        self.repeated_values: Set[str] = self._engine.known[REPEATED]
        """The `Rules.repeated_values` that were found where no key told them."""
        self.scopes = self._engine.scopes
        # The scope of the last message.
        self._scope = self._engine.scopes.content("", b"")
        self._pending: dict[str, str] = {}
        """By plugin: the key at the end of its last line, whose value is in the next line."""
        if self._engine.is_on(BuiltIn.NODES):
            for node in (*rules.node_names, os.uname().nodename):
                self._engine.hide(node, BuiltIn.NODES)

    @property
    def replaced_words(self) -> Mapping[str, str]:
        """The unknown words that were replaced so far, each with its rule, for a search of the
        output for them. Empty if too many words were kept as names and keys to tell them apart.
        """
        engine = self._engine
        if len(engine.kept) >= MAX_WORDS:
            return {}
        return {word: rule for word, rule in engine.replaced.items() if word not in engine.kept}

    def note_names(self, names: Iterable[tuple[NameKind, str, str]]) -> None:
        """Note names by kind, the id of the pod to which they belong or "", and text."""
        for kind, pod, text in names:
            for name in {text, text[3:]} if _PLUGIN.fullmatch(text) else {text}:
                with self._engine.within(self._engine.scopes.pod(pod)):
                    fields.note_name(self._engine, kind, name)

    def note_ids(self, ids: Iterable[str]) -> None:
        """Note ids of pods and containers."""
        for text in ids:
            fields.note_id(self._engine, text)

    # -- messages ---------------------------------------------------------------------------

    def request(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """Return the redacted request of the RPC ``method``; ``service`` as in `CapturedCall`.

        Handles NRI requests and recorded requests to the CRI. A message that is malformed or of an
        unknown method is replaced by a token as a whole, since its content is unknown.
        """
        scopes = self._engine.scopes
        if method == CONTAINER_STATUS and service in {CRI_SERVICE, ""}:
            # A valid request contains only an id.
            container = requested_container_id(message)
            if container is None:
                self._scope = scopes.content(method, message)
                return self._opaque(message, "request")
            self._scope = scopes.container(container)
            return message
        if method in v01.INVOCATIONS and service in {v01.SERVICE, ""}:
            return self._invocation(message)
        decoded = _decoded(method, service, message, is_request=True)
        if decoded is None:
            self._scope = scopes.content(method, message)
            return self._opaque(message, "request")
        scope = messages.scope_of(self._engine, decoded)
        self._scope = scopes.content(method, message) if scope is None else scope
        return self._redacted(decoded, message) if message else message

    def reply(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """Return the redacted reply to the last request."""
        is_json = method == CONTAINER_STATUS and service in {CRI_SERVICE, ""}
        if is_json or service == v01.SERVICE or (method in v01.INVOCATIONS and not service):
            return self._json(message, "reply")
        decoded = _decoded(method, service, message, is_request=False)
        if decoded is None:
            return self._opaque(message, "reply")
        return self._redacted(decoded, message) if message else message

    def _redacted(self, message: Message, content: bytes) -> bytes:
        def redact() -> bytes:
            messages.redact_message(self._engine, message, self._scope)
            # Also without replacements: the original bytes may contain more than the decoded
            # message, such as the first of two values of one field.
            return message.SerializeToString(deterministic=True)

        # A recording stores a repeated message once, and may have it a hundred thousand times.
        with self._engine.within(self._scope):
            return self._engine.redact_part(message.DESCRIPTOR.full_name, content, redact)

    def _invocation(self, content: bytes) -> bytes:
        """Return a redacted request of NRI 0.1, whose ids remain those of its pod and container."""
        subject = v01.parse_request(content)
        if subject is None:
            self._scope = self._engine.scopes.content(v01.INVOKE, content)
            return self._opaque(content, "request")
        scopes, pod, container = self._engine.scopes, subject.pod, subject.container
        self._scope = (
            scopes.pod(pod.id)
            if container is None
            else scopes.container(container.id, pod.id, container.name)
        )
        self.note_ids((pod.id, "" if container is None else container.id))
        return self._json(content, "request", ids=("id", "sandboxID"))

    def _json(self, content: bytes, place: str, *, ids: Sequence[str] = ()) -> bytes:
        """Return a redacted JSON object; ``ids``: members with ids of pods and containers."""
        if not content:
            return content
        document = parse_json(content)
        if not isinstance(document, dict):
            return self._opaque(content, place)
        try:
            with self._engine.within(self._scope):
                for spec in (document, *(document.get(name) for name in ("runtimeSpec", "spec"))):
                    if isinstance(spec, dict):
                        self._note_values(spec)
                kept: dict[str, Plain] = {
                    key: self.id(str(document[key])) for key in ids if key in document
                }
                rest: Plain = {key: one for key, one in document.items() if key not in kept}
                redacted = redact_value(self._engine, rest, "", "")
            if isinstance(redacted, dict):
                redacted = {**redacted, **kept}
            return content if redacted == document else dump_json(redacted).encode()
        except (RecursionError, UnicodeEncodeError):
            return self._opaque(content, place)

    def _note_values(self, spec: dict[str, Plain]) -> None:
        for member in "annotations", "labels":
            mapping = spec.get(member)
            if isinstance(mapping, dict):
                known = {key: text for key, text in mapping.items() if isinstance(text, str)}
                fields.note_values(self._engine, known)

    def _opaque(self, content: bytes, place: str) -> bytes:
        if not content or not self._engine.is_on(BuiltIn.UNREADABLE):
            return content
        # One character per byte, so that different contents stay different.
        text = content.decode("latin-1")
        if is_token(text) or not text.strip():
            return content
        with self._engine.within(self._scope):
            return self._engine.replace(BuiltIn.UNREADABLE, text, place).encode()

    # -- texts and names --------------------------------------------------------------------

    def text(self, text: str, place: str = "text", *, of_event: bool = False) -> str:
        """Return redacted prose: a status message, an end reason, a note, or the reason of a gap.

        ``place`` is for the tally, e.g. ``event.status_message``. ``of_event``: whether the text
        belongs to the last messages; otherwise its tokens apply to this text only.
        """
        if not text:
            return text
        engine = self._engine
        content = text.encode("utf-8", "surrogatepass")
        scope = self._scope if of_event else engine.scopes.content("text", content)
        with engine.within(scope):
            return engine.redact_text(text, place)

    def line(self, plugin: str, text: str) -> str:
        """Return a redacted line that a plugin printed. A key may end the line before its value."""
        before = self._pending.pop(plugin, "")
        if (key := _pending_key(self._engine, text)) and len(self._pending) < 1_000:
            self._pending[plugin] = key
        if not before:
            return self.text(text, "output.text")
        # As if it were one line, of which the key stays.
        return self.text(f"{before} {text}", "output.text")[len(before) + 1 :]

    def keyed(self, key: str, value: str, place: str) -> tuple[str, str]:
        """Return a redacted key and value, such as request metadata (``authorization: …``)."""
        with self._engine.within(self._scope):
            shown = fields.redact_key(self._engine, key, place)
            return shown, fields.redact_keyed_value(self._engine, key, value, place)

    def name(self, kind: NameKind, text: str) -> str:
        """Return a redacted name from a table, equal to the same name in redacted messages."""
        place = f"{kind}.name"
        numbered = _PLUGIN.fullmatch(text) if kind is NameKind.PLUGIN else None
        if numbered is not None:
            return numbered[1] + fields.redact_name(self._engine, kind, numbered[2], place)
        return fields.redact_name(self._engine, kind, text, place)

    def session_names(self, session: object) -> dict[str, str]:
        """Return the redacted names of a session, or of its start, by field."""
        names = {field: getattr(session, field) for field in SESSION_NAMES}
        self.note_names((kind, "", names[field]) for field, kind in SESSION_NAMES.items())
        return {field: self.name(kind, names[field]) for field, kind in SESSION_NAMES.items()}

    def event_texts(self, event: object) -> dict[str, str]:
        """Return the redacted `EVENT_TEXTS` of the event whose messages were redacted last."""
        return {
            field: self.text(getattr(event, field), f"event.{field}", of_event=True)
            for field in EVENT_TEXTS
        }

    def id(self, text: str) -> str:
        """Return a redacted id or UID of a pod or container, as in redacted messages."""
        return fields.redact_id(self._engine, text, "id") if text else text

    def path(self, pointer: str) -> str:
        """Return a redacted OCI path of `Event.changed`, with keys as in the last messages."""
        keys = split(pointer)
        # Keys of annotations are chosen by users, even if they look like field names.
        is_ours = not keys or keys[0] != "annotations"
        if is_ours and all(_WORD.fullmatch(key) for key in keys):
            return pointer
        redacted = ""
        with self._engine.within(self._scope):
            for number in range(len(keys)):
                redacted = joined(redacted, self._path_key(keys, number, is_ours=is_ours))
        return redacted

    def _path_key(self, keys: Sequence[str], number: int, *, is_ours: bool) -> str:
        key = keys[number]
        if _WORD.fullmatch(key) is not None and (is_ours or not number):
            return key
        match = _NUMBERED.fullmatch(key)
        bare, count = (match[1], match[2]) if match is not None else (key, "")
        is_text = keys[0] in {"mounts", "hooks"} or keys[:2] == ["linux", "devices"]
        function = Engine.redact_text if is_text else fields.redact_key
        return function(self._engine, bare, "event.changed") + count


def _cut(engine: Engine, text: str, place: str) -> str:
    redacted = redact_json(engine, text, place) if text.lstrip()[:1] in {"{", "["} else None
    return texts.redact_text(engine, text, place) if redacted is None else redacted


def _decoded(method: str, service: str, content: bytes, *, is_request: bool) -> Message | None:
    known = METHODS.get(method)
    if known is None or (service and service != known.service):
        return None
    return decode(known.request if is_request else known.reply, content)


def _pending_key(engine: Engine, text: str) -> str:
    """Return the key at the end of a line whose value is in the next line; "" for other lines."""
    key = _PENDING.search(text[-100:])
    return key[0] if key is not None and engine.certainty_of(key[0]) else ""
