# SPDX-License-Identifier: Apache-2.0
"""The live trace of exchanges, as a tap prints it."""

from __future__ import annotations

import json
from dataclasses import replace
from time import time_ns

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.capture.sink import ShownLine
from nri_scope.cli import trace_printer
from nri_scope.cli.trace_printer import Trace, TracedExchange, TraceLines
from nri_scope.events import CapturedCall, Event, status_of
from nri_scope.nri.events import METHODS, RUNTIME_SERVICE
from nri_scope.nri.request_subject import decode_request

POD = api.PodSandbox(id="pod-id", name="web", namespace="shop")
APP = api.Container(id="app-id", name="app", pod_sandbox_id="pod-id")


def exchange(
    method: str,
    request: Message | bytes = b"",
    reply: Message | bytes = b"",
    *,
    code: int = 0,
    words: str = "",
    service: str = "",
) -> TracedExchange:
    """Return an exchange of the plugin 60-policy with a deadline of two seconds."""
    data = request if isinstance(request, bytes) else request.SerializeToString()
    answer = reply if isinstance(reply, bytes) else reply.SerializeToString()
    captured = CapturedCall(
        1_700_000_000 * 10**9, 1, method, data, answer, code, words, 91_000, 2 * 10**9, service
    )
    decoded = decode_request(method, data, service)
    pod, container = decoded.pod or api.PodSandbox(), decoded.container or api.Container()
    event = Event(
        id=7,
        session=1,
        seq=7,
        at_ns=captured.wall_ns,
        mono_ns=captured.mono_ns,
        plugin="60-policy",
        runtime="containerd",
        method=method,
        event=decoded.event,
        namespace=pod.namespace,
        pod=pod.name,
        container=container.name,
        pod_id=pod.id,
        container_id=container.id,
        took_ns=captured.took_ns,
        timeout_ns=captured.timeout_ns,
        size=len(data),
        status=status_of(code),
        status_code=code,
        status_message=words,
        mark=decoded.mark,
    )
    return TracedExchange(event, captured)


def line(*exchanges: TracedExchange, **options: bool) -> str:
    """Return the line of the last exchange, from its duration on."""
    lines = TraceLines(**options)
    text = ""
    for one in exchanges:
        lines.learn(one)
        text = lines.of(one)[-1]
    return text[text.index("91µs") :]


def created(reply: api.CreateContainerResponse) -> TracedExchange:
    return exchange("CreateContainer", api.CreateContainerRequest(pod=POD, container=APP), reply)


class TestReplySummary:
    def test_lists_the_adjusted_fields(self) -> None:
        reply = api.CreateContainerResponse()
        adjust = reply.adjust
        adjust.annotations["a.example/b"] = "c"
        adjust.env.add(key="-FOO")
        adjust.env.add(key="FOO", value="new one")
        adjust.mounts.add(destination="/data", source="/srv", type="bind")
        adjust.rlimits.add(type="RLIMIT_NOFILE", soft=2048, hard=4096)
        adjust.linux.devices.add(path="/dev/kvm", type="c", major=10, minor=232)
        adjust.linux.resources.cpu.shares.value = 512
        adjust.linux.oom_score_adj.value = -5
        assert line(created(reply)) == (
            "91µs   CreateContainer(shop/web/app) = annotation a.example/b=c, mount /data, "
            "env -FOO, env FOO=new one, device /dev/kvm, cpu.shares=512, oom_score_adj=-5, "
            "rlimit RLIMIT_NOFILE=2048:4096"
        )

    def test_names_updated_containers(self) -> None:
        sync = api.SynchronizeRequest(pods=[POD], containers=[APP])
        reply = api.StopContainerResponse()
        for container_id in ("app-id", "stranger"):
            update = reply.update.add(container_id=container_id)
            update.linux.resources.cpu.cpus = "0-1"
        stopped = exchange("StopContainer", api.StopContainerRequest(pod=POD), reply)
        assert line(exchange("Synchronize", sync), stopped) == (
            "91µs   StopContainer(shop/web) = update shop/web/app {cpu.cpus=0-1}, "
            "update stranger {cpu.cpus=0-1}"
        )

    def test_empty_reply_is_braces(self) -> None:
        assert line(created(api.CreateContainerResponse())).endswith("(shop/web/app) = {}")

    def test_length_is_bounded(self) -> None:
        reply = api.CreateContainerResponse()
        for number in range(100):
            reply.adjust.env.add(key=f"V{number}", value="x" * 1000)
        text = line(created(reply))
        assert text.endswith("…")
        assert len(text) < trace_printer.WAITING_MAX

    def test_reply_to_configure_lists_subscribed_events(self) -> None:
        request = api.ConfigureRequest(
            runtime_name="containerd", runtime_version="1.7.24", config="secret: 1"
        )
        assert line(exchange("Configure", request, api.ConfigureResponse(events=0b1001))) == (
            "91µs   Configure(containerd 1.7.24, 9 characters of config) = "
            "events RunPodSandbox, CreateContainer"
        )
        reply = api.ConfigureResponse(events=1)
        reply.failure_policy.fail_request = True
        assert line(exchange("Configure", request, reply)).endswith(
            "events RunPodSandbox, fail_request"
        )


class TestRequestSummary:
    def test_lists_the_requested_resources(self) -> None:
        request = api.UpdateContainerRequest(pod=POD, container=APP)
        request.linux_resources.memory.limit.value = 1 << 20
        assert line(exchange("UpdateContainer", request)) == (
            "91µs   UpdateContainer(shop/web/app, memory.limit=1048576) = {}"
        )

    def test_request_of_the_plugin_has_a_left_arrow(self) -> None:
        request = api.UpdateContainersRequest()
        request.update.add(container_id="app-id").linux.resources.cpu.shares.value = 2
        reply = api.UpdateContainersResponse(failed=[api.ContainerUpdate(container_id="app-id")])
        own = exchange("UpdateContainers", request, reply, service=RUNTIME_SERVICE)
        assert line(created(api.CreateContainerResponse()), own) == (
            "91µs   ← UpdateContainers(update shop/web/app {cpu.shares=2}) = failed: shop/web/app"
        )
        evicting = api.UpdateContainersRequest()
        evicting.evict.add(container_id="app-id", reason="too old")
        own = exchange("UpdateContainers", evicting, service=RUNTIME_SERVICE)
        assert line(created(api.CreateContainerResponse()), own) == (
            "91µs   ← UpdateContainers(evict shop/web/app {reason=too old}) = {}; "
            "the runtime ignores evictions"
        )
        registered = exchange(
            "RegisterPlugin", api.RegisterPluginRequest(plugin_name="policy", plugin_idx="60")
        )
        assert line(registered) == "91µs   ← RegisterPlugin(60-policy) = {}"


class TestFailures:
    @pytest.mark.parametrize(
        ("code", "words", "message"),
        [
            (4, "", "no reply within 2.00s"),
            (14, "the plugin closed", "no reply: the plugin closed"),
            (2, "no\x1b[2J policy", r"error 2: no\x1b[2J policy"),
        ],
    )
    def test_error_has_its_message(self, code: int, words: str, message: str) -> None:
        request = api.StopContainerRequest(pod=POD, container=APP)
        failed = exchange("StopContainer", request, code=code, words=words)
        assert line(failed) == f"91µs ! StopContainer(shop/web/app) = {message}"

    def test_late_reply_is_shown(self) -> None:
        reply = api.CreateContainerResponse()
        reply.adjust.env.add(key="FOO", value="bar")
        request = api.CreateContainerRequest(pod=POD, container=APP)
        late = exchange("CreateContainer", request, reply, code=4, words="too late")
        assert line(late).endswith(
            "CreateContainer(shop/web/app) = too late; late reply: env FOO=bar"
        )

    def test_unknown_method_is_shown_by_its_size(self) -> None:
        strange = exchange("Hibernate", b"\xff" * 9, b"abc")
        assert line(strange) == "91µs ! Hibernate() = 3 bytes (unknown method or service, kept raw)"

    def test_only_malformed_messages_are_called_malformed(self) -> None:
        odd = exchange("CreateContainer", b"\xff", api.CreateContainerResponse())
        assert line(odd) == "91µs ! CreateContainer() = {} (malformed request, kept raw)"
        request = api.StopContainerRequest(pod=POD, container=APP)
        assert line(exchange("StopContainer", request, b"\xff\xff")) == (
            "91µs   StopContainer(shop/web/app) = 2 bytes, malformed"
        )
        silent = exchange("Hibernate", b"\x08\x01", b"")
        assert line(silent) == "91µs ! Hibernate() = {} (unknown method or service, kept raw)"

    @given(
        method=st.sampled_from([*METHODS, "Hibernate"]),
        request=st.binary(max_size=200),
        reply=st.binary(max_size=200),
        service=st.sampled_from(["", RUNTIME_SERVICE, "strange.Service"]),
    )
    def test_any_exchange_is_one_printable_line(
        self, method: str, request: bytes, reply: bytes, service: str
    ) -> None:
        lines = TraceLines(width=120)
        one = exchange(method, request, reply, service=service)
        lines.learn(one)
        text = lines.of(one)[-1]
        assert text.isprintable()
        json.dumps(lines.record(one))


class TestPrinting:
    def test_plugin_output_is_escaped(self, capsys: pytest.CaptureFixture[str]) -> None:
        printed = Trace("text")
        one = exchange("StopContainer", api.StopContainerRequest(pod=POD, container=APP))
        assert one.captured is not None
        printed.show(one.event, one.captured)
        printed.printed(ShownLine(1_700_000_000 * 10**9, "60-policy", "stderr", "bye\x07"))
        printed.close()
        _, stopped, output = capsys.readouterr().out.splitlines()
        assert "StopContainer(shop/web/app)" in stopped
        assert output.endswith(r"stderr | bye\x07")

    def test_time_of_the_tap_is_separate(self, capsys: pytest.CaptureFixture[str]) -> None:
        one = created(api.CreateContainerResponse())
        assert one.captured is not None
        for form in ("text", "jsonl"):
            printed = Trace(form)
            printed.show(one.event, one.captured._replace(held_ns=31_500))
            printed.close()
        _, text, record = capsys.readouterr().out.splitlines()
        assert "    91µs+31µs   CreateContainer(shop/web/app) = {}" in text
        assert (json.loads(record)["took_us"], json.loads(record)["tap_us"]) == (91, 31)

    def test_plugin_output_is_in_order_of_time(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trace_printer, "OUTPUT_DELAY_S", 3600.0)
        at_ns = time_ns()
        one = created(api.CreateContainerResponse())
        one = one._replace(event=replace(one.event, at_ns=at_ns))
        assert one.captured is not None
        printed = Trace("text")
        # Events are passed on only after they were written.
        printed.printed(ShownLine(at_ns - 1, "60-policy", "stdout", "before"))
        printed.printed(ShownLine(at_ns + 1, "60-policy", "stdout", "after"))
        printed.show(one.event, one.captured)
        printed.close()
        _, before, event, after = capsys.readouterr().out.splitlines()
        assert before.endswith("stdout | before")
        assert "CreateContainer(" in event
        assert after.endswith("stdout | after")

    def test_jsonl_is_one_object_per_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        reply = api.CreateContainerResponse()
        reply.adjust.env.add(key="FOO", value="bar")
        one = created(reply)
        printed = Trace("jsonl")
        assert one.captured is not None
        printed.show(one.event, one.captured)
        printed.printed(ShownLine(one.event.at_ns, "60-policy", "stdout", "hello"))
        printed.close()
        event, output = map(json.loads, capsys.readouterr().out.splitlines())
        assert (event["event"], event["called_by"], event["error"]) == (
            "CreateContainer",
            "runtime",
            None,
        )
        assert event["reply"] == {"adjust": {"env": {"FOO": "bar"}}}
        assert output["output"]["text"] == "hello"

    def test_messages_beyond_the_memory_limit_are_not_shown(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trace_printer, "WAITING_BYTES_MAX", 1)
        one = created(api.CreateContainerResponse())
        assert one.captured is not None
        printed = Trace("text")
        printed.show(one.event, one.captured)
        printed.close()
        assert capsys.readouterr().out.rstrip().endswith("(not shown: the output is too slow)")
