# SPDX-License-Identifier: Apache-2.0
"""Replace values covered by the rules with tokens, in all kinds of content of a recording."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from google.protobuf.message import DecodeError, Message

from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, EVENT_TEXTS
from nri_scope.nri import v01
from nri_scope.nri.events import METHODS
from nri_scope.nri.plain import Plain
from nri_scope.recording.cri_answers import requested_container_id
from nri_scope.specs.json_spec import pointer as joined
from nri_scope.specs.json_spec import split

from . import commands, free_text, json_documents, messages, value_places
from .assignments import redact_assignments
from .connection_strings import redact_connections
from .credential_formats import redact_formats
from .engine import Engine
from .http_headers import redact_headers
from .keyed_credentials import redact_keyed_values
from .known_values import Original, Strength
from .limits import AGAIN, Memory
from .name_kinds import SESSION_NAMES, NameKind
from .rules import Rules
from .tally import Tally
from .tokens import is_token

_FINDERS = (
    json_documents.redact_json,
    redact_headers,
    commands.redact_commands,
    redact_keyed_values,
    redact_assignments,
    redact_formats,
    redact_connections,
    free_text.redact_mails,
    free_text.redact_addresses,
    free_text.redact_users,
    free_text.redact_encoded,
    free_text.redact_random,
    free_text.redact_hosts,
)
_ROUNDS = 4
_FILE_LIMITS = Memory()
_MAX_LEARNED = 10_000
_KEY_FINDERS = (redact_formats, free_text.redact_mails)
_WORD = re.compile(r"[A-Za-z]{1,40}|[0-9]{1,9}")
_NUMBERED = re.compile(r"(.*?)((?:#[0-9]{1,9})?)", re.DOTALL)
_PLUGIN = re.compile(r"([0-9]{2}-)(.*)", re.DOTALL)


class Redactor:
    """Redacts one recording, or several recordings that must get the same tokens.

    Equal originals get equal tokens in texts about one container, wherever they occur; see `scope`.
    No content of a recording raises an exception, except `UsageError` if a limit is exceeded. Not
    thread-safe.

    A finished recording is redacted in two passes, since the evidence that a value is secret may
    follow an occurrence of the value: first `learn` for every event (and `learn_name`, `learn_text`
    for texts that occur only in tables), then `request`, `reply`, `text`, `name` and `path`. During
    recording there is one pass, and a secret is replaced from the first evidence on.
    """

    def __init__(
        self,
        rules: Rules,
        key: bytes,
        *,
        memory: Memory = _FILE_LIMITS,
        linked: Mapping[str, str] | None = None,
        unlinked: bool = False,
    ) -> None:
        """Start without known values. ``key`` has 32 bytes and is never written. ``memory``:
        limits; the default is for redacting a whole recording. ``linked``: see `Scopes`.
        ``unlinked``: whether equal originals have equal tokens only within one event.
        """
        self.rules = rules
        self._engine = Engine(rules, key, _FINDERS, _KEY_FINDERS, memory, linked)
        self.is_unlinked = unlinked
        # By digest of a message: `KnownValues.progress` after learning from it.
        self._learned: dict[bytes, tuple[int, int, int]] = {}
        # The scope of the last message.
        self._scope = self._engine.scopes.content("", b"")
        if self._engine.is_on("nodes"):
            for node in (*rules.node_names, os.uname().nodename):
                self._engine.known.add(node, "nodes", Strength.NAME)

    @property
    def tally(self) -> Tally:
        """The counts of replaced values by rule and place."""
        return self._engine.tally

    @tally.setter
    def tally(self, tally: Tally) -> None:
        self._engine.tally = tally

    @property
    def value_count(self) -> int:
        """The number of remembered values."""
        return len(self._engine.known)

    @property
    def is_full(self) -> bool:
        """Whether some values were not remembered, and are only replaced in their places."""
        return self._engine.known.is_full

    # -- the first pass ---------------------------------------------------------------------

    def learn(self, method: str, request: bytes, reply: bytes, *, service: str = "") -> None:
        """Learn from an event's messages before any message is changed. Counts nothing."""
        engine = self._engine
        whose = f"{method}\0{service}\0".encode("utf-8", "replace")
        message_digest = hashlib.sha256(whose + reply + b"\0" + request).digest()
        if self._learned.get(message_digest) == engine.known.progress and not self.is_unlinked:
            # A repeated message adds nothing, unless something else was learned meanwhile.
            engine.work.spend(AGAIN + (len(request) + len(reply)) // 32)
            return
        engine.is_counting = False
        try:
            self.request(method, request, service=service)
            self.reply(method, reply, service=service)
        finally:
            engine.is_counting = True
        if len(self._learned) >= _MAX_LEARNED:
            self._learned.clear()
        self._learned[message_digest] = engine.known.progress

    def learn_text(self, text: str) -> None:
        """Learn from a table's text (status message, end reason, note). Counts nothing."""
        self._engine.is_counting = False
        try:
            self.text(text)
        finally:
            self._engine.is_counting = True

    def learn_name(self, kind: NameKind, text: str) -> None:
        """Learn from a name in a table. Counts nothing."""
        # A scope of its own: a pod's name must not influence which values other pods show.
        with self._engine.within(self._engine.scopes.content("table", b"")):
            value_places.note_name(self._engine, kind, text)

    # -- messages ---------------------------------------------------------------------------

    def request(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """Return the redacted request of the RPC ``method``; ``service`` as in `CapturedCall`.

        Handles NRI requests and recorded requests to the CRI. A message that is malformed or of an
        unknown method is replaced by a token as a whole, since its content is unknown.
        """
        if self.is_unlinked:
            self._engine.unlink()
        self._engine.work.decode(message)
        scopes = self._engine.scopes
        if method == CONTAINER_STATUS and service in {CRI_SERVICE, ""}:
            # A valid request contains only an id.
            container = requested_container_id(message)
            if container is None:
                self._scope = scopes.content(method, message)
                return self._opaque(message, "request")
            self._scope = scopes.container(container)
            return message
        if method in v01.METHODS and service in {v01.SERVICE, ""}:
            return self._invocation(message)
        known = METHODS.get(method)
        if known is None or (service and service != known.service):
            self._scope = scopes.content(method, message)
            return self._opaque(message, "request")
        try:
            decoded = known.request.FromString(message)
        except DecodeError:
            self._scope = scopes.content(method, message)
            return self._opaque(message, "request")
        scope = messages.scope_of(self._engine, decoded)
        self._scope = scopes.content(method, message) if scope is None else scope
        return self._redacted(decoded) if message else message

    def reply(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """Return the redacted reply to the last request."""
        self._engine.work.decode(message)
        if method == CONTAINER_STATUS and service in {CRI_SERVICE, ""}:
            return self._json(message, "reply")
        if service == v01.SERVICE or (method in v01.METHODS and not service):
            return self._json(message, "reply")
        known = METHODS.get(method)
        if known is None or (service and service != known.service):
            return self._opaque(message, "reply")
        try:
            return self._redacted(known.reply.FromString(message)) if message else message
        except DecodeError:
            return self._opaque(message, "reply")

    def _redacted(self, message: Message) -> bytes:
        engine = self._engine
        engine.begin_message()

        def redact() -> bytes:
            messages.redact_message(engine, message, self._scope)
            # Also without replacements: the original bytes may contain more than the decoded
            # message, such as the first of two values of one field.
            return message.SerializeToString(deterministic=True)

        if self.is_unlinked or not engine.is_unbounded or not messages.is_about_one(message):
            return redact()
        # Events repeat messages: treat the whole message as one part.
        content = message.SerializeToString(deterministic=True)
        with engine.within(self._scope):
            return engine.redact_part(f"{message.DESCRIPTOR.name} ".encode() + content, redact)

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
        return self._json(content, "request", ids=("id", "sandboxID"))

    def _json(self, content: bytes, place: str, *, ids: Sequence[str] = ()) -> bytes:
        """Return a redacted JSON object; ``ids``: members with ids of pods and containers."""
        if not content:
            return content
        status = json_documents.parse_json(content)
        if not isinstance(status, dict):
            return self._opaque(content, place)
        try:
            kept = {key: self.id(str(status[key])) for key in ids if key in status}
            redacted: Plain = {key: value for key, value in status.items() if key not in kept}
            self._engine.begin_message(is_part=True)
            with self._engine.within(self._scope):
                json_documents.note_names(self._engine, status)
                for _ in range(_ROUNDS):
                    # Texts that may contain values of variables precede the variables.
                    before, redacted = (
                        redacted,
                        json_documents.redact_value(self._engine, redacted, "", "", 0),
                    )
                    if redacted == before:
                        break
            if kept and isinstance(redacted, dict):
                redacted = {**redacted, **kept}
            return content if redacted == status else json_documents.dump_json(redacted).encode()
        except (RecursionError, UnicodeEncodeError):
            return self._opaque(content, place)

    def _opaque(self, content: bytes, place: str) -> bytes:
        if not content or not self._engine.is_on("unreadable"):
            return content
        # One character per byte, so that different contents stay different.
        text = content.decode("latin-1")
        if is_token(text) or not text.strip():
            return content
        with self._engine.within(self._scope):
            return self._engine.replace("unreadable", text, Strength.PRIVATE, place).encode()

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

    def keyed(self, key: str, value: str, place: str) -> tuple[str, str]:
        """Return a redacted key and value, such as request metadata (``authorization: …``)."""
        shown = self._engine.redact_key(key, place)
        return shown, value_places.redact_keyed_value(self._engine, key, value, place)

    def learn_keyed(self, key: str, value: str) -> None:
        """Learn from a key and its value before anything is changed. Counts nothing."""
        self._engine.is_counting = False
        try:
            self.keyed(key, value, "")
        finally:
            self._engine.is_counting = True

    def name(self, kind: NameKind, text: str) -> str:
        """Return a redacted name from a table, equal to the same name in redacted messages."""
        place = f"{kind}.name"
        numbered = _PLUGIN.fullmatch(text) if kind is NameKind.PLUGIN else None
        if numbered is not None:
            return numbered[1] + value_places.redact_name(self._engine, kind, numbered[2], place)
        return value_places.redact_name(self._engine, kind, text, place)

    def session_names(self, session: object) -> dict[str, str]:
        """Return the redacted names of a session, or of its start, by field."""
        return {
            field: self.name(kind, getattr(session, field)) for field, kind in SESSION_NAMES.items()
        }

    def event_texts(self, event: object) -> dict[str, str]:
        """Return the redacted `EVENT_TEXTS` of the event whose messages were redacted last."""
        return {
            field: self.text(getattr(event, field), f"event.{field}", of_event=True)
            for field in EVENT_TEXTS
        }

    def id(self, text: str) -> str:
        """Return a redacted id or UID of a pod or container, as in redacted messages."""
        return value_places.redact_id(self._engine, text, "id") if text else text

    def path(self, pointer: str) -> str:
        """Return a redacted OCI path of `Event.changed`, with keys as in the last messages."""
        keys = split(pointer)
        # Keys of annotations are chosen by users, even if they look like field names.
        is_ours = not keys or keys[0] != "annotations"
        if is_ours and all(_WORD.fullmatch(key) for key in keys):
            return pointer
        with self._engine.within(self._scope):
            return self._path(keys, is_ours=is_ours)

    def _path(self, keys: Sequence[str], *, is_ours: bool) -> str:
        engine = self._engine
        redacted = ""
        for number, key in enumerate(keys):
            match = _NUMBERED.fullmatch(key)
            bare, count = (match[1], match[2]) if match is not None else (key, "")
            if number == 0 or (is_ours and _WORD.fullmatch(key)):
                shown = key if _WORD.fullmatch(key) else engine.redact_key(key, "event.changed")
            elif keys[:2] == ("process", "env") or keys[number - 1] == "env":
                shown = value_places.redact_variable_name(engine, bare, "event.changed") + count
            elif keys[0] in {"mounts", "hooks"} or keys[:2] == ("linux", "devices"):
                shown = engine.redact_text(bare, "event.changed") + count
            else:
                shown = engine.redact_key(bare, "event.changed") + count
            redacted = joined(redacted, shown)
        return redacted

    # -- replaced values --------------------------------------------------------------------

    def originals(self) -> Iterator[Original]:
        """Return all values replaced so far, for the scan of the output.

        Raises UsageError if some were not remembered, as leaks could go unnoticed.
        """
        self._engine.known.check_remembered()
        return self._engine.known.originals()
