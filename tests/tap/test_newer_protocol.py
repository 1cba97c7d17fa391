# SPDX-License-Identifier: Apache-2.0
"""A newer NRI passes through nri-scope: unknown fields, methods, services and registrations.

Each message of the protocol gets unknown fields of all wire types, at each level. The made-up newer
protocol has calls that no version has; the authentication is that of nri#183: two calls of another
service, before the registration.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from benchmarks.traffic import is_repeated
from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import RecordedCall
from nri_scope.errors import RpcError
from nri_scope.events import Tapped
from nri_scope.logger.logger import Logger, LoggerService
from nri_scope.nri.events import (
    METHODS,
    PLUGIN_CONN,
    PLUGIN_SERVICE,
    RUNTIME_CONN,
    RUNTIME_SERVICE,
)
from nri_scope.nri.request_subject import UNKNOWN
from nri_scope.plugin import Identity, unix_socket
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from nri_scope.report.finder import diagnose
from nri_scope.report.finding import Level
from nri_scope.runtime import EmulatedRuntime
from nri_scope.runtime.profile import PROFILES
from nri_scope.share.agent_messages import entry_of, response_of
from nri_scope.share.bundle import BundleContent
from nri_scope.share.bundle.bundle_export import export, redactor_for
from nri_scope.share.bundle.leak_scan import recorded_contents
from nri_scope.share.formats.jsonl import read_back
from nri_scope.share.redaction.rules import Rules
from nri_scope.tap.connection import TappedConnection
from nri_scope.transport import Link, adopt_descriptor
from nri_scope.wire import Code, Connection, RequestReceived
from tests.plugin.runtime_end import RuntimeEnd, call
from tests.replay.plays import job_of, played_to_peers
from tests.replay.recordings import container, life, recording, run_pod
from tests.runtime_emulation.small_plugin import SmallPlugin
from tests.share.formats.recordings import exported

SECRET = b"hunter2-from-next-year"
"""A value in unknown fields, which may hold secrets."""
_TEXT = bytes([len(SECRET)]) + SECRET
UNKNOWN_FIELDS = b"".join(
    (
        b"\xc0\x3e\x96\x01",  # field 1000: varint 150
        b"\xc9\x3e" + bytes(range(8)),  # 1001: 64 bits
        b"\xd2\x3e" + _TEXT,  # 1002: a text
        # 1003: a message with a message, in which the same text is
        b"\xda\x3e" + bytes([len(_TEXT) + 3]) + b"\x0a" + bytes([len(_TEXT) + 1]) + b"\x0a" + _TEXT,
        b"\xe3\x3e\x08\x07\xe4\x3e",  # 1004: a group
        b"\xed\x3e" + bytes(range(4)),  # 1005: 32 bits
    )
)
"""Fields of all wire types, at numbers that no version uses."""

AUTHENTICATION = "nri.pkg.auth.v1alpha1.Authentication"


def filled(kind: type[Message], found: set[str]) -> Message:
    """Return a message with one of each message in it, and unknown fields at each level."""
    message: Any = kind()
    found.add(kind.DESCRIPTOR.full_name)
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None:
            _fill(message, field, found)
    if "id" in message.DESCRIPTOR.fields_by_name:
        message.id = f"{kind.DESCRIPTOR.name.lower()}-1"
    message.MergeFromString(UNKNOWN_FIELDS)
    return message  # type: ignore[no-any-return]


def _fill(message: Any, field: FieldDescriptor, found: set[str]) -> None:
    target = getattr(message, field.name)
    kind = field.message_type
    assert kind is not None
    if kind.GetOptions().map_entry:
        value = kind.fields_by_name["value"]
        if value.message_type is None:
            target["1" if kind.fields_by_name["key"].type == value.TYPE_STRING else 1] = "x"
        else:
            key = "1" if kind.fields_by_name["key"].type == value.TYPE_STRING else 1
            target[key].CopyFrom(filled(GetMessageClass(value.message_type), found))
        return
    (target.add() if is_repeated(field) else target).CopyFrom(filled(GetMessageClass(kind), found))


def unknown_fields(message: Message) -> int:
    """Count the unknown fields at all levels."""
    parts: Iterator[Message] = (
        part
        for field, value in message.ListFields()
        if field.message_type is not None
        for part in (
            value.values()
            if field.message_type.GetOptions().map_entry
            else value
            if is_repeated(field)
            else (value,)
        )
        if isinstance(part, Message)
    )
    return len(UnknownFieldSet(message)) + sum(map(unknown_fields, parts))


def messages() -> dict[str, tuple[Message, Message]]:
    """Return a request and a reply of each method."""
    found: set[str] = set()
    return {
        name: (filled(method.request, found), filled(method.reply, found))
        for name, method in METHODS.items()
    }


def test_every_message_of_the_protocol_is_filled() -> None:
    found: set[str] = set()
    for method in METHODS.values():
        for kind in (method.request, method.reply):
            message = filled(kind, found)
            fields = UnknownFieldSet(message)
            kinds = {fields[position].wire_type for position in range(len(fields))}
            assert kinds == {0, 1, 2, 3, 5}
    every = {kind.full_name for kind in api.DESCRIPTOR.message_types_by_name.values()}
    assert every - found == UNUSED


UNUSED = {"nri.pkg.api.v1alpha1.LogRequest", "nri.pkg.api.v1alpha1.OptionalInt32"}
"""Messages that no method has."""


class Peers:
    """A runtime and a plugin with a tap between their sockets, which answer as told."""

    def __init__(self, path: Path) -> None:
        self.recorder = Recorder.open(path)
        self.answers: dict[str, bytes | RpcError | None] = {}
        """Replies by method; None for no answer."""
        self.received: dict[str, bytes] = {}
        """Requests by method."""
        self.runtime: Link
        self.plugin: Link

    async def play(self, calls: Callable[[Peers], Awaitable[None]]) -> None:
        """Make calls, then close the connection at the plugin."""
        (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
        tapped = TappedConnection(self.recorder, None, lambda start, policy: None)
        relaying = asyncio.create_task(tapped.relay(ours, theirs))
        self.runtime = await adopt_descriptor(
            runtime.detach(),
            lambda: Link(Connection(serves=RUNTIME_CONN, calls=PLUGIN_CONN), self._serve),
        )
        self.plugin = await adopt_descriptor(
            plugin.detach(),
            lambda: Link(Connection(serves=PLUGIN_CONN, calls=RUNTIME_CONN), self._serve),
        )
        await calls(self)
        self.plugin.close("over")
        end = await asyncio.wait_for(relaying, 10)
        tapped.finish(end.reason)
        self.runtime.close("over")
        self.recorder.close()

    async def by_plugin(
        self, method: str, request: bytes, reply: bytes = b"", service: str = RUNTIME_SERVICE
    ) -> None:
        """Call the runtime through the tap, and check both directions."""
        await self._through(self.plugin, service, method, request, reply)

    async def by_runtime(
        self, method: str, request: bytes, reply: bytes = b"", service: str = PLUGIN_SERVICE
    ) -> None:
        """Call the plugin through the tap, and check both directions."""
        await self._through(self.runtime, service, method, request, reply)

    async def _through(
        self, link: Link, service: str, method: str, request: bytes, reply: bytes
    ) -> None:
        self.answers[method] = reply
        assert await link.call(service, method, request, timeout=10) == reply
        assert self.received.pop(method) == request

    def _serve(self, link: Link, request: RequestReceived, arrived_ns: int) -> None:
        self.received[request.method] = request.payload
        answer = self.answers.get(request.method, b"")
        if isinstance(answer, RpcError):
            link.respond_error(request.stream_id, answer.code, answer.message)
        elif answer is not None:
            link.respond(request.stream_id, answer)

    async def set_up(self) -> None:
        """Register and configure, with unknown fields in all four messages."""
        register, configure = messages()["RegisterPlugin"], messages()["Configure"]
        register[0].MergeFrom(api.RegisterPluginRequest(plugin_name="next", plugin_idx="10"))
        configure[0].MergeFrom(
            api.ConfigureRequest(runtime_name="containerd", runtime_version="v3.0.0")
        )
        await self.by_plugin("RegisterPlugin", data(register[0]), data(register[1]))
        await self.by_runtime("Configure", data(configure[0]), data(configure[1]))


def data(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def calls_in(path: Path) -> dict[str, tuple[bytes, bytes]]:
    """Return the request and reply of each method in a recording."""
    with Recording.open(path) as opened:
        return {event.method: (request, reply) for event, request, reply in opened.exchanges()}


@pytest.fixture
async def tapped(tmp_path: Path) -> Path:
    """A recording of all methods, with unknown fields in each message."""
    path = tmp_path / "tapped.nriscope.db"

    async def play(peers: Peers) -> None:
        await peers.set_up()
        for name, (request, reply) in messages().items():
            if name in ("RegisterPlugin", "Configure"):
                continue
            by = peers.by_runtime if METHODS[name].service == PLUGIN_SERVICE else peers.by_plugin
            await by(name, data(request), data(reply))

    await Peers(path).play(play)
    return path


def assert_whole(calls: dict[str, tuple[bytes, bytes]]) -> None:
    """Compare all but the set-up with what was sent, and count unknown fields in that, too."""
    for name, sent in messages().items():
        kinds = METHODS[name].request, METHODS[name].reply
        for kind, message, content in zip(kinds, sent, calls[name], strict=True):
            assert unknown_fields(kind.FromString(content)) == unknown_fields(message) > 0, name
            if name not in ("RegisterPlugin", "Configure"):
                assert data(kind.FromString(content)) == data(message), name


async def test_a_tap_relays_and_records_unknown_fields(tapped: Path) -> None:
    assert_whole(calls_in(tapped))
    with Recording.open(tapped) as opened:
        (session,) = opened.sessions()
        assert (session.plugin, session.runtime_version) == ("10-next", "v3.0.0")
        # Not even a diagnosis fails.
        diagnose(opened)


async def test_a_bundle_has_unknown_fields(tapped: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.nriscope.zip"
    with Recording.open(tapped) as opened:
        export(opened, bundle)
    assert_whole(calls_in(bundle))


async def test_json_lines_have_unknown_fields(tapped: Path, tmp_path: Path) -> None:
    lines, again = tmp_path / "x.jsonl", tmp_path / "again.nriscope.db"
    lines.write_bytes(exported(tapped, "jsonl"))
    assert b'"unknown_fields"' in lines.read_bytes()
    read_back(lines, again)
    assert_whole(calls_in(again))


async def test_an_agents_messages_have_unknown_fields(tapped: Path) -> None:
    calls = {}
    with Recording.open(tapped) as opened:
        for event, request, reply in opened.exchanges():
            call = RecordedCall(event, request, reply, "", tapped=Tapped(event.id, 0, ()))
            sent = bytes(response_of("r.nriscope.db", call))
            received = entry_of(v1.GetEventsResponse.parse(sent))
            assert isinstance(received, RecordedCall)
            calls[event.method] = received.request, received.reply
    assert_whole(calls)


async def test_redaction_removes_unknown_fields_as_they_may_hold_secrets(
    tapped: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "redacted.nriscope.zip"
    with Recording.open(tapped) as opened:
        assert any(SECRET in content for _, content in recorded_contents(opened))
        redactor = redactor_for(opened, Rules.DEFAULT)
        export(opened, bundle, BundleContent(redactor=redactor))
    with Recording.open(bundle) as opened:
        assert not any(SECRET in content for _, content in recorded_contents(opened))
    for name, contents in calls_in(bundle).items():
        kinds = METHODS[name].request, METHODS[name].reply
        for kind, content in zip(kinds, contents, strict=True):
            assert unknown_fields(kind.FromString(content)) == 0


async def test_a_replay_sends_unknown_fields(tmp_path: Path) -> None:
    events = [run_pod(), *life(container("app"))]
    for _, message in events:
        message.MergeFromString(UNKNOWN_FIELDS)
        message.pod.MergeFromString(UNKNOWN_FIELDS)  # type: ignore[attr-defined]
    source = recording(tmp_path / "source.nriscope.db", events)
    peer = SmallPlugin("10-next")
    await asyncio.to_thread(played_to_peers, job_of(source, {}), peer)
    received = {request.method: request.payload for request in peer.events}
    assert received.keys() >= {name for name, _ in events}
    for name, sent in events:
        message = METHODS[name].request.FromString(received[name])
        assert len(UnknownFieldSet(message)) == len(UnknownFieldSet(sent)), name
        assert len(UnknownFieldSet(message.pod)) == len(UnknownFieldSet(sent.pod)), name  # type: ignore[attr-defined]


# -- calls that no version has ---------------------------------------------------------------


async def _authenticate(peers: Peers) -> None:
    """Make the calls of nri#183."""
    request = b"\x0a\x04ecdh\x12\x03key"
    await peers.by_plugin("RequestChallenge", request, b"\x0a\x03key\x12\x03why", AUTHENTICATION)
    await peers.by_plugin("RespondChallenge", b"\x0a\x03yes", b"\x0a\x05admin", AUTHENTICATION)


async def test_an_authentication_before_the_registration_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "authenticated.nriscope.db"

    async def play(peers: Peers) -> None:
        await _authenticate(peers)
        await peers.set_up()

    await Peers(path).play(play)
    calls = calls_in(path)
    assert [*calls] == ["RequestChallenge", "RespondChallenge", "RegisterPlugin", "Configure"]
    assert calls["RespondChallenge"] == (b"\x0a\x03yes", b"\x0a\x05admin")
    with Recording.open(path) as opened:
        (session,) = opened.sessions()
        assert session.plugin == "10-next"
        assert [event.mark for event in opened.events()] == [UNKNOWN, UNKNOWN, "", ""]
        (undecoded,) = diagnose(opened).findings
        assert undecoded.title.startswith("2 events could not be decoded: ")
        assert undecoded.level is Level.NOTE
    again = tmp_path / "again.nriscope.db"
    (tmp_path / "x.jsonl").write_bytes(exported(path, "jsonl"))
    read_back(tmp_path / "x.jsonl", again)
    assert calls_in(again) == calls


async def test_a_refused_authentication_is_recorded_without_a_registration(tmp_path: Path) -> None:
    path = tmp_path / "refused.nriscope.db"

    async def play(peers: Peers) -> None:
        peers.answers["RequestChallenge"] = RpcError(Code.UNKNOWN, "unknown key")
        with pytest.raises(RpcError, match="unknown key"):
            await peers.plugin.call(AUTHENTICATION, "RequestChallenge", b"\x0a\x04ecdh")

    await Peers(path).play(play)
    with Recording.open(path) as opened:
        (event,) = opened.events()
        assert (event.method, event.status_message) == ("RequestChallenge", "unknown key")
        failed, undecoded = diagnose(opened).findings
        # Which side called is not known of a method that no version has.
        assert failed.title == "RequestChallenge failed: unknown key"
        assert "plugin" not in f"{failed.title} {failed.detail}"
        assert undecoded.level is Level.NOTE


async def test_the_last_answer_decides_a_registration_of_several_steps(tmp_path: Path) -> None:
    path = tmp_path / "steps.nriscope.db"

    async def play(peers: Peers) -> None:
        request = api.RegisterPluginRequest(plugin_name="next", plugin_idx="10")
        await peers.by_plugin("RegisterPlugin", data(request), UNKNOWN_FIELDS)
        request.MergeFromString(UNKNOWN_FIELDS)
        peers.answers["RegisterPlugin"] = RpcError(Code.UNKNOWN, "wrong response")
        with pytest.raises(RpcError, match="wrong response"):
            await peers.plugin.call(RUNTIME_SERVICE, "RegisterPlugin", data(request))

    await Peers(path).play(play)
    with Recording.open(path) as opened:
        (session,) = opened.sessions()
        assert session.end_reason.startswith("the runtime refused the registration: wrong response")
        titles = [finding.title for finding in diagnose(opened).findings]
        assert titles == ["The runtime refused the registration of 10-next"]


async def test_unknown_calls_of_both_peers_are_recorded_and_redacted(tmp_path: Path) -> None:
    path, bundle = tmp_path / "calls.nriscope.db", tmp_path / "redacted.nriscope.zip"
    content = b"\x0a" + _TEXT

    async def play(peers: Peers) -> None:
        await peers.set_up()
        await peers.by_runtime("CheckpointContainer", content, content)
        await peers.by_plugin("ListVolumes", content, content)
        await peers.by_runtime("CreateContainer", content, content, "nri.pkg.api.v2.Plugin")

    await Peers(path).play(play)
    calls = calls_in(path)
    for name in ("CheckpointContainer", "ListVolumes", "CreateContainer"):
        assert calls[name] == (content, content)
    with Recording.open(path) as opened:
        marks = {event.method: event.mark for event in opened.events()}
        assert {name for name, mark in marks.items() if mark == UNKNOWN} == {
            "CheckpointContainer",
            "ListVolumes",
            "CreateContainer",
        }
        export(opened, bundle, BundleContent(redactor=redactor_for(opened, Rules.DEFAULT)))
    with Recording.open(bundle) as opened:
        assert not any(SECRET in stored for _, stored in recorded_contents(opened))


async def test_a_whole_newer_service_is_recorded(tmp_path: Path) -> None:
    """No message of the connection belongs to a known service, so no session is configured."""
    path = tmp_path / "v2.nriscope.db"
    count = 40

    async def play(peers: Peers) -> None:
        await peers.by_plugin("RegisterPlugin", b"\x0a\x04next", service="nri.pkg.api.v2.Runtime")
        for number in range(count):
            await peers.by_runtime(
                "CreateContainer", b"\x08%c" % number, b"x", "nri.pkg.api.v2.Plugin"
            )

    await Peers(path).play(play)
    with Recording.open(path) as opened:
        assert [event.method for event in opened.events()] == [
            "RegisterPlugin",
            *["CreateContainer"] * count,
        ]
        assert all(event.mark == UNKNOWN for event in opened.events())


async def test_an_emulated_runtime_refuses_an_authentication_and_goes_on(tmp_path: Path) -> None:
    async with EmulatedRuntime(PROFILES["nri-0.12.5"]) as runtime:
        await runtime.listen(tmp_path / "nri.sock")
        peer = SmallPlugin("10-next")
        await peer.connect(tmp_path / "nri.sock")
        with pytest.raises(RpcError) as raised:
            await peer.connected.call(AUTHENTICATION, "RequestChallenge", b"\x0a\x04ecdh")
        assert raised.value.code == Code.UNIMPLEMENTED
        await peer.register()
        await runtime.wait_for(lambda: bool(runtime.plugins))


async def test_a_passive_plugin_records_unknown_fields_and_calls(tmp_path: Path) -> None:
    path, end = tmp_path / "logged.nriscope.db", RuntimeEnd()
    await end.listen(tmp_path / "nri.sock")
    recorder = Recorder.open(path)
    logger = Logger(recorder, Identity(index="00", name="nri-scope"))
    service = LoggerService(logger, unix_socket(tmp_path / "nri.sock"))
    running = asyncio.create_task(service.run())
    link, _ = await end.registered()
    sent = {name: request for name, (request, _) in messages().items()}
    sent["Configure"].MergeFrom(
        api.ConfigureRequest(runtime_name="containerd", runtime_version="v3.0.0")
    )
    of_plugin = [name for name, method in METHODS.items() if method.service == PLUGIN_SERVICE]
    for name in of_plugin:
        await call(link, name, sent[name])
    assert await call(link, "CheckpointContainer", UNKNOWN_FIELDS) == b""
    service.stop("over")
    await asyncio.wait_for(running, 10)
    await end.close()
    recorder.close()
    calls = calls_in(path)
    for name in of_plugin:
        assert calls[name][0] == data(sent[name]), name
    assert calls["CheckpointContainer"][0] == UNKNOWN_FIELDS
