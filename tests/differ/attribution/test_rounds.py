# SPDX-License-Identifier: Apache-2.0
"""Events of several connections put together: what belongs together, and what is left apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import Evidence, RoundDiff
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


def updating(shares: int) -> api.UpdateContainerRequest:
    made = api.UpdateContainerRequest(pod=POD, container=container())
    made.linux_resources.cpu.shares.value = shares
    return made


def setting(key: str, value: str) -> api.CreateContainerResponse:
    reply = api.CreateContainerResponse()
    reply.adjust.env.add(key=key, value=value)
    return reply


def owners(found: list[RoundDiff]) -> list[tuple[str, str]]:
    return [(step.change.path, str(step.owner)) for one in found for step in one.steps]


PROBES = {"p00_a": Role.PROBE, "p50_b": Role.PROBE, "p99_c": Role.PROBE}


class TestWhatBelongsTogether:
    def test_one_event_at_all_connections(self) -> None:
        made = traffic(**PROBES)
        made.send("00-a", "CreateContainer", create())
        made.send("50-b", "CreateContainer", create(FOO="1"))
        made.send("99-c", "CreateContainer", create(FOO="1"))
        (one,) = made.end()
        assert one.seen_by == ("00-a", "50-b", "99-c")
        assert owners([one]) == [("/process/env/FOO", "one of 01–49")]

    def test_of_pods_at_the_same_time_each_has_its_own(self) -> None:
        made = traffic(**PROBES)
        for name in ("app", "other"):
            made.send("00-a", "CreateContainer", create(name))
            made.send("50-b", "CreateContainer", create(name, BY=name))
            made.send("99-c", "CreateContainer", create(name, BY=name))
        one, other = made.end()
        assert [step.change.after for step in (*one.steps, *other.steps)] == ["app", "other"]
        assert (one.container, other.container) == ("app-id", "other-id")

    def test_older_and_newer_ways_to_tell_an_event(self) -> None:
        # From NRI 0.12 each event has its RPC; a plugin that has it not is told by StateChange.
        made = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        started = {"pod": POD, "container": container()}
        made.send("00-a", "StartContainer", api.StartContainerRequest(**started))  # type: ignore[arg-type]
        made.send(
            "50-b",
            "StateChange",
            api.StateChangeEvent(event=api.START_CONTAINER, **started),  # type: ignore[arg-type]
            event="StartContainer",
        )
        assert [one.seen_by for one in made.end()] == [("00-a", "50-b")]


class TestWhatIsLeftApart:
    def test_an_event_that_one_connection_gets_twice(self) -> None:
        made = traffic(**PROBES)
        stop = api.StopPodSandboxRequest(pod=POD)
        for plugin in ("00-a", "50-b", "00-a", "50-b"):
            made.send(plugin, "StopPodSandbox", stop)
        assert [one.seen_by for one in made.end()] == [("00-a", "50-b")] * 2

    def test_a_connection_that_joined_after_the_round_had_begun(self) -> None:
        made = traffic(p00_a=Role.PROBE)
        made.send("00-a", "CreateContainer", create())
        made.connect("50-b")
        made.send("50-b", "CreateContainer", create(FOO="1"))
        assert owners(made.end()) == []

    def test_a_connection_that_was_gone_before_the_next_was_asked(self) -> None:
        # The runtime may have tried again, with other plugins.
        made = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        for name in ("StopContainer", "CreateContainer"):
            kind = getattr(api, f"{name}Request")
            made.send("00-a", name, kind(pod=POD, container=container()))
            made.differ.begin(session(1, "00-a", ended_ns=made.now_ns + 10))
            made.send("50-b", name, kind(pod=POD, container=container(FOO="1")))
        # But no container is created again: that is another one.
        assert [one.seen_by for one in made.end()] == [("00-a",), ("50-b",), ("00-a", "50-b")]

    def test_an_index_below_the_one_before(self) -> None:
        made = traffic(p50_b=Role.PROBE, p00_a=Role.PROBE)
        made.send("50-b", "CreateContainer", create(FOO="1"))
        made.send("00-a", "CreateContainer", create())
        assert owners(made.end()) == []

    def test_a_session_that_is_not_known(self) -> None:
        made = traffic(p00_a=Role.PROBE)
        made.send("00-a", "CreateContainer", create())
        made.sessions["77-x"] = session(77, "77-x")
        made.send("77-x", "CreateContainer", create(FOO="1"))
        assert [one.seen_by for one in made.end()] == [("00-a",)]


class TestTwoUpdatesInARow:
    def test_of_which_each_connection_lost_another_are_no_round(self) -> None:
        made = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        for plugin in ("00-a", "50-b"):
            made.send(plugin, "CreateContainer", create())
        made.send("00-a", "UpdateContainer", updating(100))
        made.skip("50-b")
        made.skip("00-a")
        made.send("50-b", "UpdateContainer", updating(200))
        steps = [step for one in made.end() for step in one.steps]
        assert not [step for step in steps if step.evidence == (Evidence.PROBES,)]
        assert str(steps[-1].owner) == "CRI request, or one of 00–49"

    @pytest.mark.parametrize(("session", "rounds"), [(1, 2), (2, 2), (None, 2), (3, 1)])
    def test_in_a_gap_are_no_round(self, session: int | None, rounds: int) -> None:
        made = Traffic(Differ(gaps=[Gap(1, session, START_NS, START_NS + 10**12, "lost", 1)]))
        made.connect("00-a")
        made.connect("50-b")
        made.send("00-a", "UpdateContainer", updating(100))
        made.send("50-b", "UpdateContainer", updating(200))
        assert len(made.end()) == rounds

    @pytest.mark.parametrize(
        ("lossy", "rounds"), [((1,), 1), ((2,), 1), ((1, 2), 2), ((3,), 2), ((None,), 2)]
    )
    def test_unless_one_that_lost_nothing_would_have_seen_the_second(
        self, lossy: tuple[int | None, ...], rounds: int
    ) -> None:
        after_two = START_NS + 2_500_000
        made = Traffic(
            Differ(gaps=[Gap(1, each, after_two, START_NS + 10**12, "lost", 1) for each in lossy])
        )
        plugins = ("00-a", "50-b", "99-c")
        for plugin in plugins:
            made.connect(plugin)
        for plugin in plugins:
            made.send(plugin, "UpdateContainer", updating(100))
        assert len(made.end()) == rounds


class TestWhatIsMissed:
    def test_a_connection_that_was_there_is_named(self) -> None:
        made = traffic(**PROBES)
        made.send("00-a", "CreateContainer", create())
        made.send("99-c", "CreateContainer", create(FOO="1"))
        (one,) = made.end()
        assert one.missed_by == ("50-b",)
        assert owners([one]) == [("/process/env/FOO", "one of 01–98")]

    def test_not_one_that_did_not_subscribe(self) -> None:
        made = traffic(p00_a=Role.PROBE)
        made.differ.begin(session(2, "50-b", mask=1 << 0))
        made.send("00-a", "CreateContainer", create())
        (one,) = made.end()
        assert one.missed_by == ()

    def test_nor_one_that_came_later_or_was_gone(self) -> None:
        made = traffic(p00_a=Role.PROBE)
        made.differ.begin(session(2, "50-b", started_ns=START_NS + 10**12))
        made.differ.begin(session(3, "51-c", ended_ns=START_NS))
        made.send("00-a", "CreateContainer", create())
        (one,) = made.end()
        assert one.missed_by == ()


class TestIndicesThatAreShared:
    def test_a_range_tells_of_namesakes_at_its_borders(self) -> None:
        made = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        made.send("00-a", "CreateContainer", create())
        made.send("50-b", "CreateContainer", create(FOO="1"))
        (one,) = made.end()
        assert one.steps[0].owner.ties == ("00", "50")

    def test_between_neighbours_only_a_namesake_is_left(self) -> None:
        made = traffic(p49_a=Role.PROBE, p50_b=Role.PROBE)
        made.send("49-a", "CreateContainer", create())
        made.send("50-b", "CreateContainer", create(FOO="1"))
        assert owners(made.end()) == [("/process/env/FOO", "one of 49–50")]

    def test_between_two_of_one_index_it_is_that_index(self) -> None:
        made = traffic(p50_a=Role.PROBE, p50_b=Role.PROBE)
        made.send("50-b", "CreateContainer", create())
        made.send("50-a", "CreateContainer", create(FOO="1"))
        assert owners(made.end()) == [("/process/env/FOO", "a plugin at 50")]


class TestFailures:
    def test_an_error_ends_the_chain(self) -> None:
        made = traffic(p00_a=Role.PROBE, p30_x=Role.TAP, p50_b=Role.PROBE)
        made.send("00-a", "CreateContainer", create())
        made.send("30-x", "CreateContainer", create(), status=(2, "no such device"))
        (one,) = made.end()
        assert one.failure == "30-x returned an error: no such device"
        assert one.missed_by == ("50-b",)
        assert made.differ.histories["app-id"].failure == one.failure

    @pytest.mark.parametrize("code", [4, 14])
    def test_a_plugin_that_is_late_or_gone_does_not(self, code: int) -> None:
        made = traffic(p00_a=Role.PROBE, p30_x=Role.TAP, p50_b=Role.PROBE)
        made.send("00-a", "CreateContainer", create())
        made.send("30-x", "CreateContainer", create(), setting("FOO", "1"), status=(code, "gone"))
        made.send("50-b", "CreateContainer", create())
        (one,) = made.end()
        assert (one.failure, one.steps) == ("", ())

    def test_a_conflict_names_both_and_takes_back_the_second(self) -> None:
        made = traffic(p00_a=Role.PROBE, p20_x=Role.TAP, p40_y=Role.TAP, p99_b=Role.PROBE)
        made.send("00-a", "CreateContainer", create())
        made.send("20-x", "CreateContainer", create(), setting("FOO", "1"))
        made.send("40-y", "CreateContainer", create(FOO="1"), setting("FOO", "2"))
        (one,) = made.end()
        assert '"40-y" and "20-x" both tried to set' in one.failure
        assert owners([one]) == [("/process/env/FOO", "20-x")]
        (vain,) = one.asked
        assert (str(vain.owner), vain.path, vain.value) == ("40-y", "/process/env/FOO", "2")
        assert vain.reason == one.failure


class TestUpdates:
    def test_tell_the_request_from_the_plugins(self) -> None:
        made = traffic(**PROBES)
        for plugin in ("00-a", "50-b", "99-c"):
            made.send(plugin, "CreateContainer", create())
        made.send("00-a", "UpdateContainer", updating(100))
        made.send("50-b", "UpdateContainer", updating(100))
        made.send("99-c", "UpdateContainer", updating(300))
        _, one = made.end()
        path = "/linux/resources/cpu/shares"
        assert owners([one]) == [(path, "CRI request"), (path, "one of 51–98")]
        assert one.steps[0].evidence == (Evidence.REQUEST,)

    def test_without_a_probe_in_front_it_may_be_either(self) -> None:
        made = traffic(p50_b=Role.PROBE)
        made.send("50-b", "CreateContainer", create())
        made.send("50-b", "UpdateContainer", updating(100))
        *_, one = made.end()
        assert owners([one]) == [("/linux/resources/cpu/shares", "CRI request, or one of 00–49")]
        assert not one.steps[0].owner.exact

    def test_out_of_turn_are_the_plugins_own(self) -> None:
        made = traffic(p00_a=Role.PROBE, p30_x=Role.TAP)
        made.send("00-a", "CreateContainer", create())
        made.send("30-x", "CreateContainer", create())
        update = api.UpdateContainersRequest()
        for target in ("app-id", "broken-id"):
            change = update.update.add(container_id=target)
            change.linux.resources.cpu.shares.value = 7
        reply = api.UpdateContainersResponse()
        reply.failed.add(container_id="broken-id")
        made.send("30-x", "UpdateContainers", update, reply)
        *_, one = made.end()
        assert owners([one]) == [("/linux/resources/cpu/shares", "30-x")]
        (vain,) = one.asked
        assert vain.container == "broken-id"
        assert vain.reason == "the runtime reported that the update failed"


class TestSynchronizeAgain:
    def test_shows_what_changed_while_nobody_looked(self) -> None:
        made = traffic(p00_a=Role.PROBE)
        made.send("00-a", "CreateContainer", create())
        made.send("00-a", "StartContainer", api.StartContainerRequest(container=container()))
        made.connect("00-a2")
        told = api.SynchronizeRequest(containers=[container(FOO="1"), container("other")])
        made.send("00-a2", "Synchronize", told)
        *_, one = made.end()
        assert owners([one]) == [("/process/env/FOO", "one of 00–99, or the runtime")]
        assert str(made.differ.histories["other-id"].base_owner) == "unknown"


class TestLaterEvents:
    def start(self, **env: str) -> api.StartContainerRequest:
        return api.StartContainerRequest(pod=POD, container=container(**env))

    def test_show_what_happened_after_the_last_connection(self) -> None:
        made = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        made.send("00-a", "CreateContainer", create())
        made.send("50-b", "CreateContainer", create())
        made.send("00-a", "StartContainer", self.start(FOO="1"))
        made.send("50-b", "StartContainer", self.start(FOO="1"))
        _, one = made.end()
        assert owners([one]) == [("/process/env/FOO", "one of 51–99, or the runtime")]
        assert one.steps[0].evidence == (Evidence.EVENTS,)

    def test_show_what_nobody_was_seen_asking_for(self) -> None:
        made = traffic(p00_a=Role.PROBE, p99_b=Role.PROBE)
        for method, request in (
            ("CreateContainer", create()),
            ("StartContainer", self.start()),
            ("RemoveContainer", api.RemoveContainerRequest(container=container(FOO="1"))),
        ):
            for plugin in ("00-a", "99-b"):
                made.send(plugin, method, request)
        *_, one = made.end()
        assert owners([one]) == [("/process/env/FOO", "one of 00–99, or the runtime")]
        assert "no request for it was seen" in one.steps[0].note

    def test_say_nothing_by_an_id_alone(self) -> None:
        made = traffic(p00_a=Role.PROBE)
        made.send("00-a", "CreateContainer", create(FOO="1"))
        made.send(
            "00-a", "StopContainer", api.StopContainerRequest(container=api.Container(id="app-id"))
        )
        assert owners(made.end()) == []


def test_what_was_removed_is_forgotten_where_it_is_not_kept() -> None:
    made = Traffic(Differ(keep=False))
    made.connect("00-a")
    made.send("00-a", "CreateContainer", create())
    made.send("00-a", "RemoveContainer", api.RemoveContainerRequest(container=container()))
    made.end()
    assert made.differ.name_of("app-id") == "shop/web/app"
    made.send("00-a", "RunPodSandbox", api.RunPodSandboxRequest(pod=POD))
    made.end()
    assert made.differ.histories == {}


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
                st.sampled_from([setting("A", "b").SerializeToString(), b'{"runtimeSpec": {}}']),
            ),
        ),
        max_size=12,
    )
)
def test_whatever_comes_nothing_raises(events: list[tuple[str, str, bytes, bytes]]) -> None:
    made = traffic(p00_a=Role.PROBE, p30_x=Role.TAP, p99_b=Role.PROBE)
    made.connect("zz-odd", Role.REPLAY)
    for plugin, method, request, reply in events:
        made.send(plugin, method, request, raw_reply=reply)
    for one in made.end():
        assert one.events
