# SPDX-License-Identifier: Apache-2.0
"""Sessions recorded from the bytes that a runtime and a plugin write."""

from __future__ import annotations

from time import monotonic_ns

import pytest

from nri_scope._gen.nri.api_pb2 import (
    ConfigureRequest,
    ConfigureResponse,
    PodSandbox,
    RegisterPluginRequest,
    SynchronizeRequest,
)
from nri_scope.end_reasons import oversized_message
from nri_scope.events import LATE, Role
from nri_scope.nri.events import PLUGIN_SERVICE, RUNTIME_SERVICE
from nri_scope.plugin import Identity
from nri_scope.tap import session as session_module
from nri_scope.tap.session import TapSession
from nri_scope.wire import Code, Connection
from tests.tap.sink import ListSink
from tests.wire.go_connection import GoConnection

SECOND = 10**9


class Talk:
    """Runtime and plugin, and a tap that receives each message in one piece at the time `now`."""

    def __init__(self, sink: ListSink, named: Identity | None = None) -> None:
        self.runtime = Connection(serves=2, calls=1)
        self.plugin = Connection(serves=1, calls=2)
        self.tap = TapSession(sink, named=named)
        self.now = monotonic_ns()
        self.held = 1000
        """Time that a message spends in the tap, in ns."""

    def ask(
        self, method: str, payload: bytes = b"", *, service: str = PLUGIN_SERVICE, **more: object
    ) -> int:
        """Call the plugin as the runtime; return the stream id."""
        stream = self.runtime.send_request(service, method, payload, **more)  # type: ignore[arg-type]
        self._pass(True)
        return stream

    def answer(self, stream: int, reply: bytes = b"") -> None:
        self.plugin.send_response(stream, reply)
        self._pass(False)

    def call(self, method: str, payload: bytes = b"") -> int:
        """Call the runtime as the plugin; return the stream id."""
        stream = self.plugin.send_request(RUNTIME_SERVICE, method, payload)
        self._pass(False)
        return stream

    def register(self, index: str = "10", name: str = "mine") -> None:
        payload = RegisterPluginRequest(plugin_idx=index, plugin_name=name).SerializeToString()
        self.runtime.send_response(self.call("RegisterPlugin", payload))
        self._pass(True)

    def configure(self, mask: int = 0x7FF) -> None:
        request = ConfigureRequest(
            runtime_name="containerd", runtime_version="v1.7.22", request_timeout=2000
        )
        stream = self.ask("Configure", request.SerializeToString())
        self.answer(stream, ConfigureResponse(events=mask).SerializeToString())

    def _pass(self, forth: bool) -> None:
        source, target = (self.runtime, self.plugin) if forth else (self.plugin, self.runtime)
        data = b"".join(source.data_to_send())
        target.receive_data(data)
        target.events_received()
        self.tap.receive(forth, data, self.now, self.now + self.held)
        self.now += self.held


@pytest.fixture
def sink() -> ListSink:
    return ListSink()


@pytest.fixture
def talk(sink: ListSink) -> Talk:
    """Runtime and plugin after registration and configuration."""
    talk = Talk(sink)
    talk.register()
    talk.configure()
    return talk


def test_a_session_has_the_name_that_the_plugin_registered(sink: ListSink, talk: Talk) -> None:
    (start,) = sink.starts
    assert (start.role, start.plugin_index, start.plugin_name) == (Role.TAP, "10", "mine")
    assert (start.runtime_name, start.nri_version) == ("containerd", "0.6.1")
    assert start.nri_version_inferred
    assert (start.mask, start.request_timeout_ms) == (0x7FF, 2000)
    assert sink.methods == ["RegisterPlugin", "Configure"]
    assert [item.service for item in sink.items] == [RUNTIME_SERVICE, ""]
    assert talk.tap.registered


def test_configure_may_be_answered_before_the_registration(sink: ListSink) -> None:
    talk = Talk(sink)
    register = RegisterPluginRequest(plugin_idx="10", plugin_name="mine").SerializeToString()
    stream = talk.call("RegisterPlugin", register)
    talk.configure()
    talk.runtime.send_response(stream)
    talk._pass(True)
    assert sink.starts[0].plugin_name == "mine"
    assert sink.methods == ["Configure", "RegisterPlugin"]


def test_a_launched_plugin_has_the_name_of_its_file(
    sink: ListSink,
) -> None:
    talk = Talk(sink, Identity(index="42", name="file"))
    talk.register()
    talk.configure()
    assert (sink.starts[0].plugin_index, sink.starts[0].plugin_name) == ("42", "file")


def test_an_empty_mask_selects_all_events_of_the_version(sink: ListSink) -> None:
    talk = Talk(sink)
    talk.register()
    talk.configure(mask=0)
    assert sink.starts[0].mask == 0x7FF


def test_an_exchange_contains_the_time_in_plugin_and_tap(sink: ListSink, talk: Talk) -> None:
    stream = talk.ask(
        "CreateContainer", b"\x0a\x00", timeout_ns=2 * SECOND, metadata=[("trace", "abc")]
    )
    talk.now += 5_000
    talk.answer(stream, b"\x12\x00")
    item = sink.items[-1]
    assert (item.method, item.request, item.reply) == ("CreateContainer", b"\x0a\x00", b"\x12\x00")
    assert (item.took_ns, item.held_ns, item.timeout_ns) == (5_000, 2_000, 2 * SECOND)
    assert item.metadata == (("trace", "abc"),)
    assert item.status_code == 0


def test_an_error_of_the_plugin_is_recorded_with_its_message(sink: ListSink, talk: Talk) -> None:
    stream = talk.ask("CreateContainer")
    talk.plugin.send_error(stream, 13, "no")
    talk._pass(False)
    assert (sink.items[-1].status_code, sink.items[-1].status_message) == (13, "no")


@pytest.mark.parametrize("held", [1_000, 600_000_000])
def test_a_reply_after_the_deadline_is_late_even_if_the_tap_delayed_it(
    sink: ListSink, talk: Talk, held: int
) -> None:
    stream = talk.ask("StopContainer", timeout_ns=SECOND)
    talk.now += SECOND - held
    talk.held = 2 * held
    talk.answer(stream, b"\x0a\x00")
    item = sink.items[-1]
    assert (item.status_code, item.status_message) == (Code.DEADLINE_EXCEEDED, LATE)


def test_an_unanswered_request_is_recorded_when_the_connection_ends(
    sink: ListSink, talk: Talk
) -> None:
    talk.ask("CreateContainer", timeout_ns=3600 * SECOND)
    talk.tap.ended("the plugin closed the connection", monotonic_ns())
    talk.tap.finish("killed by SIGKILL")
    item = sink.items[-1]
    assert item.status_code == Code.UNAVAILABLE
    assert item.status_message == "not answered: the plugin closed the connection"
    assert sink.ends == [(1, "killed by SIGKILL")]


def test_an_unanswered_request_after_its_deadline_has_the_status_of_a_timeout(
    sink: ListSink, talk: Talk
) -> None:
    talk.now -= 2 * SECOND
    talk.ask("CreateContainer", timeout_ns=2 * SECOND)
    talk.tap.ended("the runtime closed the connection", monotonic_ns())
    assert sink.items[-1].status_code == Code.DEADLINE_EXCEEDED


def test_a_missing_reply_of_a_plugin_that_stays_connected_is_recorded(
    sink: ListSink, talk: Talk
) -> None:
    stream = talk.ask("CreateContainer", timeout_ns=2 * SECOND)
    talk.now += SECOND
    talk.answer(talk.ask("StartContainer", timeout_ns=2 * SECOND))
    # It may still be answered.
    assert sink.methods[-1] == "StartContainer" and "CreateContainer" not in sink.methods
    talk.now += 3600 * SECOND
    talk.call("UpdateContainers")
    assert "CreateContainer" not in sink.methods
    talk.answer(talk.ask("StopContainer", timeout_ns=2 * SECOND))
    assert sink.methods[-2:] == ["CreateContainer", "StopContainer"]
    missing = sink.items[-2]
    assert (missing.status_code, missing.status_message) == (Code.DEADLINE_EXCEEDED, "not answered")
    assert (missing.took_ns + (missing.held_ns or 0)) == 2 * SECOND
    talk.answer(stream)
    assert sink.notes[-1][1] == "the plugin answered a request after its deadline"


def test_calls_of_the_plugin_and_unknown_methods_are_events(sink: ListSink, talk: Talk) -> None:
    update = talk.call("UpdateContainers", b"\x0a\x00")
    unknown = talk.ask("NextYearsEvent", b"raw")
    other = talk.ask("Configure", b"?", service="other.Service")
    talk.answer(other, b"!")
    talk.answer(unknown, b"reply")
    talk.runtime.send_response(update, b"\x0a\x00")
    talk._pass(True)
    assert [(item.method, item.service, item.reply) for item in sink.items[2:]] == [
        ("Configure", "other.Service", b"!"),
        ("NextYearsEvent", "", b"reply"),
        ("UpdateContainers", RUNTIME_SERVICE, b"\x0a\x00"),
    ]
    assert len(sink.starts) == 1


def test_a_refused_registration_is_recorded_with_the_runtimes_message(sink: ListSink) -> None:
    talk = Talk(sink)
    stream = talk.call(
        "RegisterPlugin", RegisterPluginRequest(plugin_idx="x", plugin_name="y").SerializeToString()
    )
    talk.runtime.send_error(stream, 2, "invalid index")
    talk._pass(True)
    talk.tap.ended("the runtime closed the connection", monotonic_ns())
    talk.tap.finish("whatever")
    assert not talk.tap.registered
    assert talk.tap.refused == "invalid index"
    (start,), ((_, item),) = sink.starts, sink.events
    assert (start.plugin_index, start.plugin_name, start.runtime_name) == ("x", "y", "")
    assert (item.method, item.status_code, item.status_message) == (
        *("RegisterPlugin", 2),
        "invalid index",
    )
    assert sink.ends == [(1, "the runtime refused the registration: invalid index; whatever")]


def test_a_second_registration_is_an_event_and_keeps_the_name(sink: ListSink, talk: Talk) -> None:
    talk.register("99", "another")
    assert sink.methods[-1] == "RegisterPlugin"
    assert talk.tap.identity == Identity(index="10", name="mine")


def test_a_second_configure_begins_another_session(sink: ListSink, talk: Talk) -> None:
    talk.configure(mask=1)
    assert [start.mask for start in sink.starts] == [0x7FF, 1]
    assert sink.ends == [(1, "configured again")]
    assert [number for number, _ in sink.events] == [1, 1, 2]


def test_a_refused_configuration_is_recorded(sink: ListSink) -> None:
    talk = Talk(sink)
    talk.register()
    stream = talk.ask("Configure", ConfigureRequest(runtime_name="r").SerializeToString())
    talk.plugin.send_error(stream, 2, "bad configuration")
    talk._pass(False)
    assert sink.starts[0].mask == 0
    assert sink.items[-1].status_message == "bad configuration"


def test_invalid_bytes_end_the_recording_with_a_gap(sink: ListSink, talk: Talk) -> None:
    talk.ask("CreateContainer")
    nonsense = b"\xff" * 8
    talk.tap.receive(False, nonsense, talk.now, talk.now)
    talk.ask("StartContainer")
    talk.tap.ended("the runtime closed the connection", monotonic_ns())
    talk.tap.finish("the runtime closed the connection")
    assert sink.methods == ["RegisterPlugin", "Configure"]
    assert len(sink.notes) == 1
    ((session, words),) = sink.gaps
    assert session == 1
    assert words.startswith("what the plugin sent after its byte")


def test_the_number_of_notes_on_invalid_frames_is_bounded(sink: ListSink, talk: Talk) -> None:
    for _ in range(100):
        talk.tap.receive(False, bytes.fromhex("0000000100000000"), 1, 1)
        # A response without a request.
        talk.tap.receive(False, bytes.fromhex("000000010000000a00000000000000630200"), 1, 1)
    assert len(sink.notes) == session_module.NOTES_MAX


def test_the_number_and_size_of_unanswered_requests_are_bounded(
    sink: ListSink, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "UNANSWERED_MAX", 3)
    for _ in range(5):
        talk.ask("StartContainer")
    assert [item.status_message for item in sink.items[2:]] == [
        "too many requests wait for an answer"
    ] * 2
    monkeypatch.setattr(session_module, "UNANSWERED_BYTES_MAX", 10)
    talk.ask("StartContainer", bytes(11))
    assert len(sink.items) == 5


def test_a_reply_to_a_request_that_was_given_up_is_no_reply_to_an_unseen_one(
    sink: ListSink, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "UNANSWERED_MAX", 1)
    kept, given_up = talk.ask("StartContainer"), talk.ask("StopContainer")
    talk.answer(given_up)
    assert sink.notes[-1][1] == (
        "the plugin answered a request that was given up, as too many requests wait for an answer"
    )
    talk.answer(kept)
    assert len(sink.notes) == 1


def test_the_second_reply_on_a_stream_that_was_used_again_is_noted_as_such(
    sink: ListSink, talk: Talk
) -> None:
    stream = talk.runtime.send_request(PLUGIN_SERVICE, "StartContainer", b"")
    request = b"".join(talk.runtime.data_to_send())
    talk.plugin.receive_data(request)
    talk.plugin.events_received()
    talk.plugin.send_response(stream)
    reply = b"".join(talk.plugin.data_to_send())
    for forth, data in ((True, request), (True, request), (False, reply)):
        talk.tap.receive(forth, data, talk.now, talk.now)
    assert sink.items[-2].status_message == "its stream id was used again"
    assert not sink.items[-1].status_code and not sink.notes
    talk.tap.receive(False, reply, talk.now, talk.now)
    assert sink.notes[-1][1] == (
        "the plugin answered a request that was given up, as its stream id was used again"
    )


def test_printed_lines_belong_to_the_session_even_if_printed_before_it(sink: ListSink) -> None:
    talk = Talk(sink)
    talk.tap.printed("stderr", "starting", talk.now)
    talk.register()
    talk.configure()
    talk.tap.printed("stdout", "ready", talk.now)
    talk.tap.ended("the plugin closed the connection", monotonic_ns())
    talk.tap.printed("stderr", "bye", talk.now)
    talk.tap.finish("exited with status 1")
    talk.tap.printed("stderr", "too late", talk.now)
    assert [(session, stream, text) for session, _, stream, text in sink.lines] == [
        (1, "stderr", "starting"),
        (1, "stdout", "ready"),
        (1, "stderr", "bye"),
    ]


def test_a_reused_stream_id_leaves_the_first_request_unanswered(sink: ListSink, talk: Talk) -> None:
    stream = talk.ask("StartContainer")
    again = Connection(serves=2, calls=1)
    while again.send_request(PLUGIN_SERVICE, "StopContainer", b"") != stream:
        again.data_to_send()
    talk.tap.receive(True, b"".join(again.data_to_send()), talk.now, talk.now)
    talk.answer(stream)
    assert [(item.method, item.status_code) for item in sink.items[2:]] == [
        ("StartContainer", Code.UNAVAILABLE),
        ("StopContainer", 0),
    ]


@pytest.mark.parametrize("error", ["", "message length 5000072 exceed maximum message size"])
def test_a_message_over_the_limit_is_a_gap_and_later_events_are_recorded(
    sink: ListSink, error: str
) -> None:
    talk = Talk(sink)
    talk.runtime = GoConnection(serves=2, calls=1)
    talk.plugin = GoConnection(serves=1, calls=2)
    talk.register()
    talk.configure()
    stream = talk.ask("Synchronize", SynchronizeRequest(
        pods=[PodSandbox(annotations={"big": "x" * 5_000_000})]
    ).SerializeToString())  # fmt: skip
    if error:
        talk.plugin.send_error(stream, Code.RESOURCE_EXHAUSTED, error)
        talk._pass(False)
    else:
        talk.answer(stream)
    talk.answer(talk.ask("StateChange"))
    talk.tap.ended("closed", talk.now)
    ((session, reason),) = sink.gaps
    assert session == 1
    assert reason.endswith("it was relayed, but not recorded")
    assert oversized_message([reason]) == ("Synchronize", 5_000_067, 4 << 20)
    assert sink.methods == ["RegisterPlugin", "Configure", "StateChange"]
    (note,) = (text for _, text in sink.notes)
    said = f" with an error: {error}" if error else ""
    assert note == f"the plugin answered a request over the limit{said}"
