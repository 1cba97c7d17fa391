# SPDX-License-Identifier: Apache-2.0
"""Connections present in a round: clock changes, killed recorders, several runtimes in one file."""

from __future__ import annotations

import json
from dataclasses import replace

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.differ import WAITING_BYTES_MAX, Differ
from nri_scope.events import CONTAINER_STATUS, Event, Gap, Role, Session
from nri_scope.nri.events import EventKind
from nri_scope.recording.reading.event_messages import status_request

from ..chains import BEGUN_NS, POD, START_NS, Traffic, session, traffic

HOUR = 3600 * 10**9


def container(**env: str) -> api.Container:
    variables = [f"{key}={value}" for key, value in env.items()]
    return api.Container(
        id="app-id", name="app", pod_sandbox_id=POD.id, args=["run"], env=variables
    )


def create(**env: str) -> api.CreateContainerRequest:
    return api.CreateContainerRequest(pod=POD, container=container(**env))


def update_request(shares: int) -> api.UpdateContainerRequest:
    request = api.UpdateContainerRequest(pod=POD, container=container())
    request.linux_resources.cpu.shares.value = shares
    return request


def validation_request() -> api.ValidateContainerAdjustmentRequest:
    request = api.ValidateContainerAdjustmentRequest(pod=POD, container=container())
    request.adjust.env.add(key="FOO", value="1")
    request.owners.owners["app-id"].compound[api.Env].owners["FOO"] = "10-foo"
    for plugin in ("00-a", "10-foo", "99-c"):
        request.plugins.add(index=plugin[:2], name=plugin[3:])
    return request


class _ClockShiftingDiffer(Differ):
    """Differ whose sessions have different wall clock offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets_ns: dict[int, int] = {}

    def feed(self, event: Event, request: bytes = b"", reply: bytes = b"") -> list[RoundDiff]:
        at_ns = event.at_ns + self.offsets_ns.get(event.session, 0)
        return super().feed(replace(event, at_ns=at_ns), request, reply)


def with_clock_offsets(*sessions: Session, offsets_ns: dict[int, int]) -> Traffic:
    differ = _ClockShiftingDiffer()
    differ.offsets_ns = offsets_ns
    chain = Traffic(differ)
    for one in sessions:
        chain.sessions[one.plugin] = one
        differ.begin(one)
    return chain


class TestClocks:
    def test_a_probe_that_joined_after_the_clock_was_set_ahead_is_in_the_round(self) -> None:
        chain = with_clock_offsets(
            session(1, "00-a"),
            session(2, "99-c"),
            session(3, "50-b", started_ns=BEGUN_NS + HOUR),
            offsets_ns={3: HOUR},
        )
        chain.send("00-a", "CreateContainer", create())
        chain.send("50-b", "CreateContainer", create(FOO="1"))
        chain.send("99-c", "CreateContainer", create(FOO="1"))
        (one,) = chain.end()
        assert [str(step.owner) for step in one.steps] == ["one of 01–49"]
        assert not one.failure and not one.missed_by

    def test_a_probe_that_joined_after_the_clock_was_set_back_is_in_a_later_round(self) -> None:
        # Without the Synchronize in between, as for blame.
        chain = with_clock_offsets(
            session(1, "00-a", ended_ns=START_NS + 2 * 10**6 + 1),
            session(2, "50-b", started_ns=START_NS + 3 * 10**6 - HOUR),
            offsets_ns={2: -HOUR},
        )
        chain.send("00-a", "UpdateContainer", update_request(100))
        chain.now_ns += 2 * 10**6
        chain.send("50-b", "UpdateContainer", update_request(200))
        assert [one.seen_by for one in chain.end()] == [("00-a",), ("50-b",)]
        owners = [str(step.owner) for one in chain.found for step in one.steps]
        assert owners[0] == "CRI request"
        assert "one of 01–49" not in owners

    def test_a_probe_that_ended_before_the_clock_was_set_back_stays_ended(self) -> None:
        # The first plugin called after that belongs to a new attempt.
        chain = with_clock_offsets(
            session(1, "00-a", ended_ns=START_NS + 10**6 + 1),
            session(2, "50-b", started_ns=BEGUN_NS - HOUR),
            offsets_ns={2: -HOUR},
        )
        stop = api.StopContainerRequest(pod=POD, container=container())
        chain.send("00-a", "StopContainer", stop)
        chain.send("50-b", "StopContainer", stop)
        assert [one.seen_by for one in chain.end()] == [("00-a",), ("50-b",)]


class TestConnectionsThatMissNothing:
    def test_a_plugin_whose_recorder_was_killed_before_the_round(self) -> None:
        killed = "killed"
        gone = replace(session(30, "50-old"), end_reason=killed)
        gaps = [Gap(1, None, BEGUN_NS + 5, BEGUN_NS + 10, killed, None)]
        chain = Traffic(Differ([gone], gaps=gaps))
        chain.sessions["50-old"] = gone
        chain.connect("00-a")
        chain.connect("40-b")
        chain.send("00-a", "UpdateContainer", update_request(100))
        chain.send("40-b", "UpdateContainer", update_request(100))
        (one,) = chain.end()
        assert (one.missed_by, one.failure) == ((), "")

    def test_a_plugin_whose_recorder_was_killed_later_missed_the_event(self) -> None:
        killed = "killed"
        gone = replace(session(30, "50-old"), end_reason=killed)
        gaps = [Gap(1, None, START_NS + HOUR, START_NS + 2 * HOUR, killed, None)]
        chain = Traffic(Differ([gone], gaps=gaps))
        chain.sessions["50-old"] = gone
        chain.connect("00-a")
        chain.send("00-a", "UpdateContainer", update_request(100))
        chain.send("00-a", "StopContainer", api.StopContainerRequest(pod=POD))
        one, _ = chain.end()
        assert one.missed_by == ("50-old",)
        assert "50-old did not receive the event" in one.failure

    def test_a_plugin_of_another_runtime(self) -> None:
        chain = traffic(p00_a=Role.PROBE, p40_b=Role.PROBE)
        chain.differ.begin(replace(session(9, "99-c"), runtime_name="cri-o"))
        chain.send("00-a", "UpdateContainer", update_request(100))
        chain.send("40-b", "UpdateContainer", update_request(100))
        (one,) = chain.end()
        assert (one.missed_by, one.failure) == ((), "")

    def test_two_runtimes_never_share_a_round(self) -> None:
        chain = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        other = replace(chain.sessions["50-b"], runtime_name="cri-o")
        chain.sessions["50-b"] = other
        chain.differ.begin(other)
        chain.send("00-a", "CreateContainer", create())
        chain.send("50-b", "CreateContainer", create(FOO="1"))
        assert [one.steps for one in chain.end()] == [(), ()]


class TestBetweenCreationAndValidation:
    def creation(self, *, ended: bool) -> Traffic:
        chain = traffic(p00_a=Role.PROBE, p99_c=Role.PROBE, p10_t=Role.TAP)
        for number, one in enumerate((*chain.sessions.values(), session(9, "-cri", Role.CRI))):
            ended_ns = START_NS + HOUR if ended else None
            # The tapped plugin is not in the chain.
            mask = EventKind.StopPodSandbox.bit if one.role == Role.TAP else one.mask
            kept = replace(one, ended_ns=ended_ns, mask=mask)
            chain.sessions[one.plugin if number < 3 else "cri"] = kept
            chain.differ.begin(kept)
        chain.send("00-a", "CreateContainer", create())
        chain.send("99-c", "CreateContainer", create(FOO="1"))
        return chain

    def test_cri_replies_and_plugin_requests_do_not_split_the_round(self) -> None:
        for ended in (False, True):
            chain = self.creation(ended=ended)
            chain.send("cri", CONTAINER_STATUS, status_request("other"), raw_reply=b"{}")
            update = api.UpdateContainersRequest()
            update.update.add(container_id="other").linux.resources.cpu.shares.value = 2
            chain.send("10-t", "UpdateContainers", update, api.UpdateContainersResponse())
            chain.send("00-a", "ValidateContainerAdjustment", validation_request())
            creation, update_round = chain.end()
            assert [str(step.owner) for step in creation.steps] == ["10-foo"]
            assert len(creation.events) == 3
            assert update_round.name == "UpdateContainers"

    def test_plugin_requests_over_the_memory_bound_do_not_wait_for_the_validation(self) -> None:
        chain = self.creation(ended=False)
        update = api.UpdateContainersRequest()
        update.update.add(container_id="x" * (WAITING_BYTES_MAX // 4))
        for _ in range(5):
            chain.send("10-t", "UpdateContainers", update, api.UpdateContainersResponse())
        assert [one.name for one in chain.found] == ["UpdateContainers"] * 4
        chain.send("00-a", "ValidateContainerAdjustment", validation_request())
        names = [one.name for one in chain.end()]
        assert names == ["UpdateContainers"] * 4 + ["CreateContainer", "UpdateContainers"]


def test_an_invalid_validation_request_excludes_no_owner_of_later_changes() -> None:
    chain = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
    for plugin in ("00-a", "50-b"):
        chain.send(plugin, "CreateContainer", create())
    validation = api.ValidateContainerAdjustmentRequest(pod=POD, container=container())
    for plugin in ("00-a", "50-b", "60-c"):
        validation.plugins.add(index=plugin[:2], name=plugin[3:])
    for _ in range(2):
        validation.adjust.mounts.add(destination="/data")
    chain.send("00-a", "ValidateContainerAdjustment", validation)
    start = api.StartContainerRequest(pod=POD, container=container(FOO="1"))
    chain.send("00-a", "StartContainer", start)
    creation, started = chain.end()
    assert "cannot be evaluated" in creation.remarks[0]
    assert [str(step.owner) for step in started.steps] == ["one of 60-c, or the runtime"]


class TestCriReplies:
    def answer(self, chain: Traffic, *, requested_ms_ago: int, shares: int) -> None:
        """Record a CRI reply requested `requested_ms_ago` milliseconds ago."""
        spec = {"process": {"args": ["run"]}, "linux": {"resources": {"cpu": {"shares": shares}}}}
        now_ns, chain.now_ns = chain.now_ns, chain.now_ns - requested_ms_ago * 10**6
        content = json.dumps({"runtimeSpec": spec}).encode()
        chain.send(
            "cri", CONTAINER_STATUS, status_request("app-id"), raw_reply=content, about="app-id"
        )
        chain.now_ns = now_ns

    def test_a_reply_requested_before_an_update_does_not_judge_it_despite_a_clock_change(
        self,
    ) -> None:
        cri = replace(session(9, "-cri", Role.CRI), mask=0)
        chain = with_clock_offsets(
            session(1, "00-a"), session(2, "99-b"), cri, offsets_ns={9: HOUR}
        )
        chain.sessions["cri"] = cri
        chain.send("00-a", "CreateContainer", create())
        chain.send("99-b", "CreateContainer", create())
        for plugin in ("00-a", "99-b"):
            chain.send(plugin, "UpdateContainer", update_request(200))
        for plugin in ("00-a", "99-b"):
            done = api.PostUpdateContainerRequest(pod=POD, container=container())
            chain.send(plugin, "PostUpdateContainer", done)
        chain.differ.flush()
        self.answer(chain, requested_ms_ago=5, shares=100)
        chain.end()
        history = chain.differ.histories["app-id"]
        assert history.real is None
        self.answer(chain, requested_ms_ago=0, shares=200)
        chain.end()
        assert history.real is not None

    def test_a_reply_about_an_earlier_container_with_the_same_id_is_ignored(self) -> None:
        chain = traffic(p00_a=Role.PROBE, p99_b=Role.PROBE)
        chain.sessions["cri"] = session(9, "-cri", Role.CRI)
        chain.differ.begin(chain.sessions["cri"])
        for plugin in ("00-a", "99-b", "00-a", "99-b"):
            chain.send(plugin, "CreateContainer", create())
        chain.differ.flush()
        self.answer(chain, requested_ms_ago=4, shares=100)
        chain.end()
        assert chain.differ.histories["app-id"].real is None


def test_a_container_that_reuses_an_id_has_its_own_name() -> None:
    chain = traffic(p00_a=Role.PROBE, p99_b=Role.PROBE)
    for name in ("app", "next"):
        request = create()
        request.container.name = name
        for plugin in ("00-a", "99-b"):
            chain.send(plugin, "CreateContainer", request)
    chain.end()
    assert chain.differ.histories["app-id"].name == "shop/web/next"
