# SPDX-License-Identifier: Apache-2.0
"""The requests of scenarios: their order, and their content on each runtime."""

from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.request_subject import container_of
from nri_scope.runtime import PROFILES
from nri_scope.scenario import compile, subjects
from nri_scope.scenario.compile import MadeEvent, RuntimeStart

from .scenarios import containers, events, played, pods

WEB = "pods: {shop/web: {containers: {app: {}}}}\n"
LIFE = """\
pods:
  shop/web: {containers: {app: {labels: {io.kubernetes.container.name: app}}}}
steps:
  - run: shop/web
  - create: shop/web/app
  - start: shop/web/app
  - update: shop/web/app
    linux_resources: {cpu: {shares: 7}}
  - stop: shop/web/app
  - remove: shop/web/app
  - stop: shop/web
  - remove: shop/web
"""
STEPS_OF_LIFE = [
    "start",
    "RunPodSandbox web",
    "CreateContainer web/app",
    "PostCreateContainer web/app",
    "StartContainer web/app",
    "PostStartContainer web/app",
    "UpdateContainer web/app",
    "PostUpdateContainer web/app",
    "StopContainer web/app",
    "RemoveContainer web/app",
    "StopPodSandbox web",
    "RemovePodSandbox web",
]


@pytest.mark.parametrize("profile", sorted(PROFILES.keys() - {"isulad", "docker"}))
def test_verbs_lead_to_the_events_of_the_runtime(profile: str) -> None:
    assert events(f"runtime: {profile}\n{LIFE}") == STEPS_OF_LIFE


@pytest.mark.parametrize("profile", sorted(PROFILES.keys() - {"isulad", "docker"}))
def test_cri_o_up_to_1_36_has_names_of_labelled_containers_only(profile: str) -> None:
    text = f"runtime: {profile}\n{LIFE}".replace("io.kubernetes.container.name: app", "")
    names = {container.name for container in containers(text)}
    assert names == ({""} if profile.startswith("cri-o-1.3") else {"app"})


@pytest.mark.parametrize("profile", sorted(PROFILES.keys() - {"isulad", "docker"}))
def test_process_and_user_are_told_by_newer_runtimes(profile: str) -> None:
    told = list(
        containers(
            f"runtime: {profile}\n{LIFE}".replace(
                "labels:",
                "user: {uid: 7}, rlimits: [{type: RLIMIT_NOFILE, hard: 9, soft: 9}], labels:",
            )
        )
    )
    is_new = profile in ("containerd-2.3", "containerd-2.4", "nri-0.12.5", "cri-o-1.36", "cri-o")
    assert {container.user.uid for container in told} == {7 if is_new else 0}
    assert {len(container.rlimits) for container in told} == {1 if is_new else 0}
    is_old_cri_o = profile.startswith(("cri-o-1.33", "cri-o-1.34", "cri-o-1.35"))
    assert any(container.pid for container in told) != is_old_cri_o
    assert any(container.finished_at for container in told) == is_new


def test_docker_sends_creations_only() -> None:
    assert events(f"runtime: docker\n{LIFE}") == ["start", "CreateContainer /app//app"]


def test_isulad_has_long_names_and_creates_without_id() -> None:
    found = events(f"runtime: isulad\n{LIFE}")
    assert found[2] == "CreateContainer k8s_POD_web_shop_" + found[1].split("_shop_")[1] + "/app"
    assert "/k8s_app_web_shop_" in found[3]
    first, *others = containers(f"runtime: isulad\n{LIFE}")
    assert not first.id and len({one.id for one in others}) == 1


def test_without_steps_the_kubelet_starts_the_containers_in_order() -> None:
    text = """\
pods:
  web:
    containers:
      app: {}
      setup: {kind: init}
      proxy: {kind: sidecar}
      other: {}
until: UNTIL
"""
    begin = [
        "start",
        "RunPodSandbox web",
        *_started("setup"),
        "StopContainer web/setup",
        *_started("proxy"),
        *_started("app"),
        *_started("other"),
    ]
    assert events(text.replace("UNTIL", "running")) == begin
    stop = [f"StopContainer web/{name}" for name in ("app", "other", "proxy")]
    stopped = [*begin, *stop, "StopPodSandbox web"]
    assert events(text.replace("UNTIL", "stopped")) == stopped
    remove = [f"RemoveContainer web/{name}" for name in ("app", "setup", "proxy", "other")]
    assert events(text.replace("UNTIL", "removed")) == [
        *stopped, *remove, "RemovePodSandbox web",
    ]  # fmt: skip


def _started(name: str) -> list[str]:
    before = ("Create", "PostCreate", "Start", "PostStart")
    return [f"{event}Container web/{name}" for event in before]


def test_what_exists_is_synchronized_and_not_created() -> None:
    text = """\
runtime: containerd-2.1
existing:
  old:
    containers:
      runs: {}
      ended: {state: CONTAINER_STOPPED}
pods:
  old: {containers: {late: {}}}
"""
    start, *rest = played(text)
    assert isinstance(start, RuntimeStart)
    assert [pod.name for pod in start.pods] == ["old"]
    assert [(one.name, one.state) for one in start.containers] == [("runs", 3), ("ended", 4)]
    assert [one.event.name for one in rest if isinstance(one, MadeEvent)][:1] == ["CreateContainer"]
    assert {container.name for container in containers(text)} == {"late"}


def test_a_restart_lists_what_runs_and_containerd_forgets_pods() -> None:
    text = LIFE.replace(
        "  - stop: shop/web/app\n", "  - restart: runtime\n  - stop: shop/web/app\n"
    )
    found = events(f"runtime: containerd-2.1\n{text}")
    assert found == [*STEPS_OF_LIFE[:8], "start", *STEPS_OF_LIFE[8:10]]
    second = [one for one in played(text) if isinstance(one, RuntimeStart)][1]
    assert [(container.name, container.state) for container in second.containers] == [("app", 3)]
    assert second.containers[0].pid and second.pods[0].name == "web"
    assert second.containers[0].linux.resources.cpu.shares.value == 7
    # CRI-O tells the end of older pods, too.
    assert events(f"runtime: cri-o\n{text}")[9:] == STEPS_OF_LIFE[8:]


def test_stopping_a_pod_stops_its_containers_first() -> None:
    text = """\
runtime: RUNTIME
pods: {web: {containers: {a: {}, b: {}}}}
steps: [{run: web}, {create: web/a}, {start: web/a}, {create: web/b}, {remove: web}]
"""
    ends = [
        "StopContainer web/a",
        "StopPodSandbox web",
        "RemoveContainer web/a",
        "StopContainer web/b",
        "RemoveContainer web/b",
        "RemovePodSandbox web",
    ]
    assert events(text.replace("RUNTIME", "containerd-2.3"))[-6:] == ends
    short = [line.split()[0] for line in events(text.replace("RUNTIME", "isulad"))]
    assert short[-3:] == ["PostCreateContainer", "StopPodSandbox", "RemovePodSandbox"]


def test_an_event_of_a_step_is_sent_in_any_state() -> None:
    text = WEB + "steps: [{create: shop/web/app}]"
    with pytest.raises(UsageError, match=r"create: the pod shop/web is not running at this point"):
        events(text)
    text = WEB + "steps: [{CreateContainer: shop/web/app}, {StopPodSandbox: shop/web}]"
    assert events(text) == ["start", "CreateContainer web/app", "StopPodSandbox web"]


def test_events_that_the_runtime_never_sends_are_left_out() -> None:
    text = "pods: {web: {}}\nsteps: [{run: web}, {update: web, linux_resources: {}}]"
    assert events(f"runtime: containerd-2.1\n{text}")[1:] == ["RunPodSandbox web"]
    assert events(f"runtime: cri-o\n{text}")[1:] == ["RunPodSandbox web", "UpdatePodSandbox web"]
    assert events(f"runtime: containerd-2.3\n{text}")[2:] == [
        "UpdatePodSandbox web", "PostUpdatePodSandbox web",
    ]  # fmt: skip


# -- identities -------------------------------------------------------------------------------


def test_the_same_scenario_has_the_same_requests_each_time() -> None:
    assert played(LIFE) == played(LIFE)
    ids = {container.id for container in containers(LIFE)} | {pod.id for pod in pods(LIFE)}
    assert len(ids) == 2 and all(len(id_) == 64 for id_ in ids)


def test_a_container_that_is_created_again_has_a_new_id() -> None:
    old = "ab" * 32
    text = f"""\
pods:
  web:
    containers:
      app:
        id: {old}
        linux: {{cgroups_path: /pods/{old}}}
steps:
  - run: web
  - repeat: 3
    steps:
      - create: web/app
      - start: web/app
      - crash: web/app
        exit_code: 3
      - remove: web/app
"""
    assert len(events(text)) == 2 + 3 * 6
    made = {container.id: container.linux.cgroups_path for container in containers(text)}
    assert len(made) == 3 and old in made
    assert all(path == f"/pods/{key}" for key, path in made.items())
    ended = [container for container in containers(text) if container.state == 4]
    assert len(ended) == 3 and {one.exit_code for one in ended} == {3}


def test_a_pod_that_is_run_again_has_a_new_id_with_its_containers() -> None:
    text = """\
pods: {web: {containers: {app: {}}}}
steps:
  - repeat: 2
    steps: [{run: web}, {create: web/app}, {remove: web}]
"""
    found = list(pods(text))
    assert len({one.id for one in found}) == 2 and len({one.uid for one in found}) == 1
    for pod, one in zip(
        [one for one in played(text) if isinstance(one, MadeEvent)], found, strict=True
    ):
        container = container_of(pod.event.name, pod.request)
        assert container is None or container.pod_sandbox_id == one.id
    assert len({container.id for container in containers(text)}) == 2


def test_copies_have_names_ids_and_addresses_of_their_own() -> None:
    pod = "cd" * 32
    text = f"""\
pods:
  shop/web:
    copies: 300
    id: {pod}
    uid: 1b6a9f06-0000-4000-8000-000000000000
    ips: [10.0.0.250]
    labels: {{app: web, io.kubernetes.pod.name: web}}
    annotations: {{sandbox: {pod}, note: web}}
    containers:
      app:
        env: {{HOSTNAME: web, NAME: web}}
        mounts: [{{source: /run/{pod}/hosts}}]
"""
    found = {pod.name: pod for pod in pods(text)}
    assert list(found)[:2] == ["web-1", "web-2"] and len(found) == 300
    for values in (
        {one.id for one in found.values()},
        {one.uid for one in found.values()},
        {one.pid for one in found.values()},
        {tuple(one.ips) for one in found.values()},
        {container.id for container in containers(text)},
        {container.pid for container in containers(text) if container.pid},
    ):
        assert len(values) == 300
    last = found["web-300"]
    assert last.ips == ["10.0.2.37"] and last.annotations["sandbox"] == last.id
    assert last.labels == {"app": "web", "io.kubernetes.pod.name": "web-300"}
    assert last.annotations["note"] == "web"
    *_, container = containers(text)
    assert container.env == ["HOSTNAME=web-300", "NAME=web"]
    assert container.mounts[0].source == f"/run/{last.id}/hosts"


def test_a_step_is_for_all_copies_or_one() -> None:
    text = (
        "pods: {web: {copies: 3, containers: {app: {}}}}\nsteps: [{run: web}, {create: web-2/app}]"
    )
    assert events(text)[1:] == [
        "RunPodSandbox web-1",
        "RunPodSandbox web-2",
        "RunPodSandbox web-3",
        "CreateContainer web-2/app",
        "PostCreateContainer web-2/app",
    ]


# -- content ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "states", "with_pid", "with_times"),
    [
        ("containerd-1.7", [0, 1, 1, 3, 3, 3, 3, 4], range(2, 7), False),
        ("containerd-2.3", [0, 1, 1, 3, 3, 3, 4, 0], range(2, 7), True),
        ("cri-o", [0, 1, 1, 1, 3, 3, 4, 4], range(1, 8), True),
        ("isulad", [0, 0, 0, 0, 0, 0, 0, 0], range(2, 6), False),
    ],
)
def test_what_each_runtime_tells_about_a_container(
    profile: str, states: list[int], with_pid: range, with_times: bool
) -> None:
    found = list(containers(f"runtime: {profile}\n{LIFE}"))
    assert [one.state for one in found] == states
    assert [bool(one.pid) for one in found] == [at in with_pid for at in range(8)]
    assert [bool(one.created_at) for one in found] == [with_times and at > 0 for at in range(8)]
    ended = [at > 5 and with_times for at in range(8)]
    assert [bool(one.finished_at) for one in found] == ended
    assert [one.exit_code for one in found] == [137 * one for one in ended]
    shares = [one.linux.resources.cpu.shares.value for one in found]
    assert shares == [0, 0, 0, 0, 0, 7, 7, 7]


def test_changes_of_a_step_last() -> None:
    text = """\
pods:
  web:
    annotations: {a: b}
    linux: {cgroup_parent: /x}
    containers: {app: {labels: {old: ''}}}
steps:
  - run: web
  - create: web/app
    container: {labels: {new: ''}, state: CONTAINER_STOPPED}
  - start: web/app
    pod: {annotations: {}, linux: absent}
  - stop: web/app
"""
    labels = [dict(container.labels) for container in containers(text)]
    assert labels == [{"new": ""}] * 5
    assert [container.state for container in containers(text)] == [4, 4, 1, 3, 4]
    found = [(dict(pod.annotations), pod.HasField("linux")) for pod in pods(text)]
    assert found == [({"a": "b"}, True)] * 3 + [({}, False)] * 3


def test_containerd_forgets_what_it_took_from_a_pods_spec() -> None:
    text = """\
runtime: RUNTIME
pods:
  web:
    pid: 5
    annotations: {io.kubernetes.cri.sandbox-name: web, mine: x}
    linux: {cgroup_parent: /x, cgroups_path: /x/y}
steps: [{run: web}, {stop: web}, {remove: web}]
"""
    run = ({"io.kubernetes.cri.sandbox-name": "web", "mine": "x"}, "/x/y", 5)
    late = (run[0], "/x/y", 0)
    gone = ({"mine": "x"}, "", 0)
    for runtime, expected in (
        ("containerd-1.7", [run, gone, gone]),
        ("containerd-2.1", [run, late, gone]),
        ("containerd-2.3", [run, late, late]),
        ("cri-o", [run, run, run]),
    ):
        found = pods(text.replace("RUNTIME", runtime))
        told = [(dict(one.annotations), one.linux.cgroups_path, one.pid) for one in found]
        assert told == expected, runtime


def test_times_follow_the_pace() -> None:
    text = "every: 20ms\n" + WEB + "steps: [{run: shop/web}, {wait: 3s}, {create: shop/web/app}]"
    times = [one.at_ns for one in played(text)]
    assert [(time - times[0]) // 10**6 for time in times] == [0, 21, 3041, 3061]
    assert times[0] == 1_767_225_600 * 10**9


# -- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ("[{run: shop/wep}]", "steps[0].run: there is no pod 'shop/wep'; did you mean shop/web?"),
        ("[{run: shop/web/app}]", "there is no pod 'shop/web/app'; did you mean shop/web?"),
        ("[{start: shop/web}]", "there is no container 'shop/web'; did you mean shop/web/app?"),
        ("[{stop: x}]", "there is no pod or container 'x'; known are shop/web, shop/web/app"),
        ("[{repeat: 1, steps: [{stop: x}]}]", "steps[0].steps[0].stop: there is no pod"),
        ("[{run: shop/web}, {run: shop/web}]", "the pod shop/web exists already; remove it"),
        ("[{stop: shop/web}]", "the pod shop/web does not exist at this point; add a step run"),
        (
            "[{start: shop/web/app}]",
            "does not exist at this point; add a step create: shop/web/app",
        ),
        ("[{StopContainer: shop/web/app}]", "does not exist at this point"),
        (
            "[{run: shop/web}, {create: shop/web/app}, {create: shop/web/app}]",
            "the container shop/web/app exists already; remove it first",
        ),
        (
            "[{run: shop/web}, {create: shop/web/app}, {crash: shop/web/app}]",
            "steps[2].crash: the container shop/web/app does not run at this point",
        ),
    ],
)
def test_an_impossible_step_is_an_error(steps: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        events(f"{WEB}steps: {steps}")
    assert str(raised.value).startswith("web.yaml:3: ")
    assert problem in str(raised.value)


def test_a_pod_may_not_have_the_name_of_a_copy() -> None:
    with pytest.raises(UsageError, match="web-2 is a pod and a copy of web"):
        events("pods: {web-2: {}, web: {copies: 2}}")


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile, "MAX_EVENTS", 100)
    with pytest.raises(UsageError, match="more than 100 events; write fewer copies"):
        events("pods: {web: {copies: 200}}")
    monkeypatch.setattr(compile, "MAX_BYTES", 1000)
    with pytest.raises(UsageError, match="requests of more than 0 MiB"):
        events("pods: {web: {copies: 50}}")
    monkeypatch.setattr(subjects, "MAX_BYTES", 100)
    with pytest.raises(UsageError, match="its pods have more than 0 MiB"):
        events("pods: {web: {copies: 50}}")


def test_messages_of_a_scenario_are_not_shared() -> None:
    """Each event has its own content: later changes do not reach earlier ones."""
    first, *_ = (one for one in played(LIFE) if isinstance(one, MadeEvent))
    assert isinstance(first.request, api.RunPodSandboxRequest)
    before = first.request.SerializeToString()
    played(LIFE)
    assert first.request.SerializeToString() == before


def test_an_event_that_is_sent_twice_is_about_the_same_container() -> None:
    text = f"""{WEB}steps:
  - run: shop/web
  - RunPodSandbox: shop/web
  - create: shop/web/app
  - CreateContainer: shop/web/app
"""
    assert len(events(text)) == 6
    assert len({one.id for one in containers(text)}) == len({pod.id for pod in pods(text)}) == 1
