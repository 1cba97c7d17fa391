# SPDX-License-Identifier: Apache-2.0
"""Grouping of events from several connections into rounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import Evidence, OutcomeKind, RoundDiff
from nri_scope.differ.attribution.differ import Differ
from nri_scope.events import Gap, Role

from ..chains import POD, START_NS, Traffic, session, traffic


def container(name: str = "app", **env: str) -> api.Container:
    return api.Container(
        id=f"{name}-id",
        name=name,
        pod_sandbox_id=POD.id,
        args=["run"],
        env=[f"{key}={value}" for key, value in env.items()],
    )


def create(name: str = "app", **env: str) -> api.CreateContainerRequest:
    return api.CreateContainerRequest(pod=POD, container=container(name, **env))


def update_request(shares: int) -> api.UpdateContainerRequest:
    request = api.UpdateContainerRequest(pod=POD, container=container())
    request.linux_resources.cpu.shares.value = shares
    return request


def reply_setting(key: str, value: str) -> api.CreateContainerResponse:
    reply = api.CreateContainerResponse()
    reply.adjust.env.add(key=key, value=value)
    return reply


def owners(found: list[RoundDiff]) -> list[tuple[str, str]]:
    return [(step.change.path, str(step.owner)) for one in found for step in one.steps]


PROBES = {"p00_a": Role.PROBE, "p50_b": Role.PROBE, "p99_c": Role.PROBE}


class TestOneRound:
    def test_an_event_seen_by_all_connections(self) -> None:
        chain = traffic(**PROBES)
        chain.send("00-a", "CreateContainer", create())
        chain.send("50-b", "CreateContainer", create(FOO="1"))
        chain.send("99-c", "CreateContainer", create(FOO="1"))
        (one,) = chain.end()
        assert one.seen_by == ("00-a", "50-b", "99-c")
        assert owners([one]) == [("/process/env/FOO", "one of 01–49")]

    def test_concurrent_containers_have_separate_rounds(self) -> None:
        chain = traffic(**PROBES)
        for name in ("app", "other"):
            chain.send("00-a", "CreateContainer", create(name))
            chain.send("50-b", "CreateContainer", create(name, BY=name))
            chain.send("99-c", "CreateContainer", create(name, BY=name))
        one, other = chain.end()
        assert [step.change.after for step in (*one.steps, *other.steps)] == ["app", "other"]
        assert (one.container, other.container) == ("app-id", "other-id")

    def test_an_event_sent_as_its_own_rpc_and_as_state_change(self) -> None:
        # From NRI 0.12 each event has its own RPC; plugins without it receive StateChange.
        chain = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        started = {"pod": POD, "container": container()}
        chain.send("00-a", "StartContainer", api.StartContainerRequest(**started))  # type: ignore[arg-type]
        chain.send(
            "50-b",
            "StateChange",
            api.StateChangeEvent(event=api.START_CONTAINER, **started),  # type: ignore[arg-type]
            event="StartContainer",
        )
        assert [one.seen_by for one in chain.end()] == [("00-a", "50-b")]


class TestSeparateRounds:
    def test_an_event_that_a_connection_receives_twice(self) -> None:
        chain = traffic(**PROBES)
        stop = api.StopPodSandboxRequest(pod=POD)
        for plugin in ("00-a", "50-b", "00-a", "50-b"):
            chain.send(plugin, "StopPodSandbox", stop)
        assert [one.seen_by for one in chain.end()] == [("00-a", "50-b")] * 2

    def test_a_connection_that_joined_after_the_round_began(self) -> None:
        chain = traffic(p00_a=Role.PROBE)
        chain.send("00-a", "CreateContainer", create())
        chain.connect("50-b")
        chain.send("50-b", "CreateContainer", create(FOO="1"))
        assert owners(chain.end()) == []

    def test_a_connection_that_ended_before_the_next_was_called(self) -> None:
        # The runtime may have tried again, with other plugins.
        chain = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        for name in ("StopContainer", "CreateContainer"):
            kind = getattr(api, f"{name}Request")
            chain.send("00-a", name, kind(pod=POD, container=container()))
            chain.differ.begin(session(1, "00-a", ended_ns=chain.now_ns + 10))
            chain.send("50-b", name, kind(pod=POD, container=container(FOO="1")))
        # A container is created only once: the second connection belongs to the first one's round.
        assert [one.seen_by for one in chain.end()] == [("00-a",), ("50-b",), ("00-a", "50-b")]

    def test_a_connection_with_a_lower_index_than_the_previous_one(self) -> None:
        chain = traffic(p50_b=Role.PROBE, p00_a=Role.PROBE)
        chain.send("50-b", "CreateContainer", create(FOO="1"))
        chain.send("00-a", "CreateContainer", create())
        assert owners(chain.end()) == []

    def test_an_unknown_session(self) -> None:
        chain = traffic(p00_a=Role.PROBE)
        chain.send("00-a", "CreateContainer", create())
        chain.sessions["77-x"] = session(77, "77-x")
        chain.send("77-x", "CreateContainer", create(FOO="1"))
        assert [one.seen_by for one in chain.end()] == [("00-a",)]


class TestTwoUpdatesInARow:
    def test_are_separate_if_each_connection_lost_a_different_one(self) -> None:
        chain = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        for plugin in ("00-a", "50-b"):
            chain.send(plugin, "CreateContainer", create())
        chain.send("00-a", "UpdateContainer", update_request(100))
        chain.skip("50-b")
        chain.skip("00-a")
        chain.send("50-b", "UpdateContainer", update_request(200))
        steps = [step for one in chain.end() for step in one.steps]
        assert not [step for step in steps if step.evidence == (Evidence.PROBES,)]
        assert str(steps[-1].owner) == "CRI request, or one of 00–49"

    @pytest.mark.parametrize(("session", "rounds"), [(1, 2), (2, 2), (None, 2), (3, 1)])
    def test_are_separate_within_a_gap(self, session: int | None, rounds: int) -> None:
        chain = Traffic(Differ(gaps=[Gap(1, session, START_NS, START_NS + 10**12, "lost", 1)]))
        chain.connect("00-a")
        chain.connect("50-b")
        chain.send("00-a", "UpdateContainer", update_request(100))
        chain.send("50-b", "UpdateContainer", update_request(200))
        assert len(chain.end()) == rounds

    @pytest.mark.parametrize(
        ("lossy", "rounds"), [((1,), 1), ((2,), 1), ((1, 2), 2), ((3,), 2), ((None,), 2)]
    )
    def test_are_one_round_if_a_lossless_connection_received_only_one(
        self, lossy: tuple[int | None, ...], rounds: int
    ) -> None:
        after_two = START_NS + 2_500_000
        chain = Traffic(
            Differ(gaps=[Gap(1, each, after_two, START_NS + 10**12, "lost", 1) for each in lossy])
        )
        plugins = ("00-a", "50-b", "99-c")
        for plugin in plugins:
            chain.connect(plugin)
        for plugin in plugins:
            chain.send(plugin, "UpdateContainer", update_request(100))
        assert len(chain.end()) == rounds


class TestMissedEvents:
    def test_a_present_connection_is_named(self) -> None:
        chain = traffic(**PROBES)
        chain.send("00-a", "CreateContainer", create())
        chain.send("99-c", "CreateContainer", create(FOO="1"))
        (one,) = chain.end()
        assert one.missed_by == ("50-b",)
        assert owners([one]) == [("/process/env/FOO", "one of 01–98")]

    def test_an_unsubscribed_connection_missed_nothing(self) -> None:
        chain = traffic(p00_a=Role.PROBE)
        chain.differ.begin(session(2, "50-b", mask=1 << 0))
        chain.send("00-a", "CreateContainer", create())
        (one,) = chain.end()
        assert one.missed_by == ()

    def test_a_later_or_ended_connection_missed_nothing(self) -> None:
        chain = traffic(p00_a=Role.PROBE)
        chain.differ.begin(session(2, "50-b", started_ns=START_NS + 10**12))
        chain.differ.begin(session(3, "51-c", ended_ns=START_NS))
        chain.send("00-a", "CreateContainer", create())
        (one,) = chain.end()
        assert one.missed_by == ()


class TestEqualIndices:
    def test_a_range_lists_its_bounds_as_ties(self) -> None:
        chain = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        chain.send("00-a", "CreateContainer", create())
        chain.send("50-b", "CreateContainer", create(FOO="1"))
        (one,) = chain.end()
        assert one.steps[0].owner.ties == ("00", "50")

    def test_a_change_between_adjacent_indices_is_at_one_of_them(self) -> None:
        chain = traffic(p49_a=Role.PROBE, p50_b=Role.PROBE)
        chain.send("49-a", "CreateContainer", create())
        chain.send("50-b", "CreateContainer", create(FOO="1"))
        assert owners(chain.end()) == [("/process/env/FOO", "one of 49–50")]

    def test_a_change_between_two_probes_with_one_index_is_at_that_index(self) -> None:
        chain = traffic(p50_a=Role.PROBE, p50_b=Role.PROBE)
        chain.send("50-b", "CreateContainer", create())
        chain.send("50-a", "CreateContainer", create(FOO="1"))
        assert owners(chain.end()) == [("/process/env/FOO", "a plugin at 50")]


class TestFailures:
    def test_an_error_ends_the_chain(self) -> None:
        chain = traffic(p00_a=Role.PROBE, p30_x=Role.TAP, p50_b=Role.PROBE)
        chain.send("00-a", "CreateContainer", create())
        chain.send("30-x", "CreateContainer", create(), status=(2, "no such device"))
        (one,) = chain.end()
        assert one.failure == "30-x returned an error: no such device"
        assert one.missed_by == ("50-b",)
        assert chain.differ.histories["app-id"].failure == one.failure

    @pytest.mark.parametrize("code", [4, 14])
    def test_a_plugin_that_times_out_or_disconnects_does_not_end_the_chain(self, code: int) -> None:
        chain = traffic(p00_a=Role.PROBE, p30_x=Role.TAP, p50_b=Role.PROBE)
        chain.send("00-a", "CreateContainer", create())
        chain.send(
            "30-x", "CreateContainer", create(), reply_setting("FOO", "1"), status=(code, "gone")
        )
        chain.send("50-b", "CreateContainer", create())
        (one,) = chain.end()
        assert (one.failure, one.steps) == ("", ())

    def test_a_conflict_names_both_plugins_and_rejects_the_second(self) -> None:
        chain = traffic(p00_a=Role.PROBE, p20_x=Role.TAP, p40_y=Role.TAP, p99_b=Role.PROBE)
        chain.send("00-a", "CreateContainer", create())
        chain.send("20-x", "CreateContainer", create(), reply_setting("FOO", "1"))
        chain.send("40-y", "CreateContainer", create(FOO="1"), reply_setting("FOO", "2"))
        (one,) = chain.end()
        assert '"40-y" and "20-x" both tried to set' in one.failure
        assert [(str(step.owner), step.change.path, step.change.after) for step in one.steps] == [
            ("20-x", "/process/env/FOO", "1"),
            ("40-y", "/process/env/FOO", "2"),
        ]
        assert {step.outcome[:2] for step in one.steps} == {(OutcomeKind.REFUSED, one.failure)}
        assert not one.changes


class TestUpdates:
    def test_the_cri_request_is_distinguished_from_plugins(self) -> None:
        chain = traffic(**PROBES)
        for plugin in ("00-a", "50-b", "99-c"):
            chain.send(plugin, "CreateContainer", create())
        chain.send("00-a", "UpdateContainer", update_request(100))
        chain.send("50-b", "UpdateContainer", update_request(100))
        chain.send("99-c", "UpdateContainer", update_request(300))
        _, one = chain.end()
        path = "/linux/resources/cpu/shares"
        assert owners([one]) == [(path, "CRI request"), (path, "one of 51–98")]
        assert one.steps[0].evidence == (Evidence.REQUEST,)

    def test_without_a_first_probe_a_change_is_by_the_request_or_a_plugin(self) -> None:
        chain = traffic(p50_b=Role.PROBE)
        chain.send("50-b", "CreateContainer", create())
        chain.send("50-b", "UpdateContainer", update_request(100))
        *_, one = chain.end()
        assert owners([one]) == [("/linux/resources/cpu/shares", "CRI request, or one of 00–49")]
        assert not one.steps[0].owner.exact

    def test_an_unsolicited_update_belongs_to_its_plugin(self) -> None:
        chain = traffic(p00_a=Role.PROBE, p30_x=Role.TAP)
        chain.send("00-a", "CreateContainer", create())
        chain.send("30-x", "CreateContainer", create())
        update = api.UpdateContainersRequest()
        for target in ("app-id", "broken-id"):
            change = update.update.add(container_id=target)
            change.linux.resources.cpu.shares.value = 7
        reply = api.UpdateContainersResponse()
        reply.failed.add(container_id="broken-id")
        chain.send("30-x", "UpdateContainers", update, reply)
        *_, one = chain.end()
        assert owners([one]) == [("/linux/resources/cpu/shares", "30-x")] * 2
        assert [(step.container, step.outcome[:2]) for step in one.steps] == [
            ("app-id", (OutcomeKind.REQUESTED, "")),
            (
                "broken-id",
                (OutcomeKind.REFUSED, "the runtime reported that the update failed"),
            ),
        ]


class TestSynchronizeAgain:
    def test_shows_changes_made_while_nothing_was_connected(self) -> None:
        chain = traffic(p00_a=Role.PROBE)
        chain.send("00-a", "CreateContainer", create())
        chain.send("00-a", "StartContainer", api.StartContainerRequest(container=container()))
        chain.connect("00-a2")
        synchronize = api.SynchronizeRequest(containers=[container(FOO="1"), container("other")])
        chain.send("00-a2", "Synchronize", synchronize)
        *_, one = chain.end()
        assert owners([one]) == [("/process/env/FOO", "one of 00–99, or the runtime")]
        assert str(chain.differ.histories["other-id"].base_owner) == "unknown"


class TestLaterEvents:
    def start(self, **env: str) -> api.StartContainerRequest:
        return api.StartContainerRequest(pod=POD, container=container(**env))

    def test_show_changes_after_the_last_connection(self) -> None:
        chain = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        chain.send("00-a", "CreateContainer", create())
        chain.send("50-b", "CreateContainer", create())
        chain.send("00-a", "StartContainer", self.start(FOO="1"))
        chain.send("50-b", "StartContainer", self.start(FOO="1"))
        _, one = chain.end()
        assert owners([one]) == [("/process/env/FOO", "one of 51–99, or the runtime")]
        assert one.steps[0].evidence == (Evidence.EVENTS,)

    def test_show_changes_without_an_observed_request(self) -> None:
        chain = traffic(p00_a=Role.PROBE, p99_b=Role.PROBE)
        for method, request in (
            ("CreateContainer", create()),
            ("StartContainer", self.start()),
            ("RemoveContainer", api.RemoveContainerRequest(container=container(FOO="1"))),
        ):
            for plugin in ("00-a", "99-b"):
                chain.send(plugin, method, request)
        *_, one = chain.end()
        assert owners([one]) == [("/process/env/FOO", "one of 00–99, or the runtime")]
        assert "no recorded message asked for it" in one.steps[0].note

    def test_show_no_change_with_only_an_id(self) -> None:
        chain = traffic(p00_a=Role.PROBE)
        chain.send("00-a", "CreateContainer", create(FOO="1"))
        chain.send(
            "00-a", "StopContainer", api.StopContainerRequest(container=api.Container(id="app-id"))
        )
        assert owners(chain.end()) == []


def test_without_keep_a_removed_containers_history_is_dropped() -> None:
    chain = Traffic(Differ(keep=False))
    chain.connect("00-a")
    chain.send("00-a", "CreateContainer", create())
    chain.send("00-a", "RemoveContainer", api.RemoveContainerRequest(container=container()))
    chain.end()
    assert chain.differ.name_of("app-id") == "shop/web/app"
    chain.send("00-a", "RunPodSandbox", api.RunPodSandboxRequest(pod=POD))
    chain.end()
    assert chain.differ.histories == {}


METHODS = (
    "CreateContainer",
    "UpdateContainer",
    "StopContainer",
    "ValidateContainerAdjustment",
    "StateChange",
    "Synchronize",
    "UpdateContainers",
    "ContainerStatus",
    "Configure",
    "Whatever",
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["00-a", "30-x", "99-b", "zz-odd"]),
            st.sampled_from(METHODS),
            st.one_of(
                st.binary(max_size=40),
                st.sampled_from([create().SerializeToString(), b"[[[[", b'{"runtimeSpec": 3}']),
            ),
            st.one_of(
                st.binary(max_size=20),
                st.sampled_from(
                    [reply_setting("A", "b").SerializeToString(), b'{"runtimeSpec": {}}']
                ),
            ),
        ),
        max_size=12,
    )
)
def test_arbitrary_events_never_raise(events: list[tuple[str, str, bytes, bytes]]) -> None:
    chain = traffic(p00_a=Role.PROBE, p30_x=Role.TAP, p99_b=Role.PROBE)
    chain.connect("zz-odd", Role.REPLAY)
    for plugin, method, request, reply in events:
        chain.send(plugin, method, request, raw_reply=reply)
    for one in chain.end():
        assert one.events
