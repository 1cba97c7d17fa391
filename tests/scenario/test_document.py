# SPDX-License-Identifier: Apache-2.0
"""The format of scenarios: what is read, and what is rejected."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.events import EventKind
from nri_scope.scenario.document import parse_scenario
from nri_scope.scenario.model import ContainerKind, Verb
from nri_scope.scenario.text import duration_text, scenario_text

from .scenarios import scenario

WHOLE = """\
scenario: 1
runtime:
  profile: cri-o
  runtime_name: cri-o
  runtime_version: '1.36.1'
  nri_version: '0.11.0'
  request_timeout: 500ms
  registration_timeout: 3s
start: '2026-01-31T14:05:07.25Z'
every: 20ms
existing:
  kube-system/agent:
    containers:
      agent:
        state: CONTAINER_CREATED
pods:
  kube-system/agent:
    containers:
      late:
        args: [x]
  web:
    copies: 3
    labels:
      app: web
    ips: ['10.0.0.1']
    containers:
      setup:
        kind: init
      proxy:
        kind: sidecar
        env:
          A: b
      app:
        name: the-app
        pid: 0
steps:
  - run: web
  - wait: 1500ms
  - repeat: 2
    steps:
      - create: web/app
      - crash: web/app
        exit_code: 3
  - update: web/app
    linux_resources:
      cpu:
        shares: 5
  - StopContainer: web-2/app
    pod: {linux: absent, pid: 0}
    container: {state: CONTAINER_STOPPED}
  - restart: runtime
"""


def test_a_whole_scenario_is_read_and_written() -> None:
    found = scenario(WHOLE)
    assert scenario_text(found) == WHOLE
    assert scenario_text(parse_scenario(scenario_text(found))) == WHOLE
    profile = found.runtime.profile()
    assert (profile.nri_version, profile.runtime_version) == ("0.11.0", "1.36.1")
    assert (profile.request_timeout_ms, profile.registration_timeout_ms) == (500, 3000)
    assert found.start_ns == 1769868307_250_000_000
    agent, web = found.pods.values()
    assert agent.exists and [one.exists for one in agent.containers.values()] == [True, False]
    assert (web.key, web.name, web.copies) == ("web", "default/web", 3)
    assert [container.kind for container in web.containers.values()] == [*ContainerKind]
    assert web.containers["app"].message == api.Container(name="the-app")
    steps = found.steps
    assert steps is not None
    assert [step.what for step in steps] == [
        Verb.RUN, Verb.WAIT, Verb.REPEAT, Verb.UPDATE, EventKind.StopContainer, Verb.RESTART,
    ]  # fmt: skip
    assert [step.exit_code for step in steps[2].steps] == [None, 3]


# text after `scenario: 1`, and the error
INVALID = [
    ("pod: {}", "web.yaml:2: pod: unknown key; did you mean pods?"),
    ("pods: []", "web.yaml:2: pods: a list is not a mapping"),
    ("pods: {a/b/c: {}}", "pods.a/b/c: not the name of a pod"),
    ("pods: {/a: {}}", "not the name of a pod"),
    ("pods: {a: {containers: {b/c: {}}}}", "not the name of a container"),
    ("pods:\n  a:\n    uuid: x", "web.yaml:4: pods.a.uuid: unknown key; did you mean uid?"),
    ("pods: {a: {copies: 0}}", "copies: 0 is not between 1 and 10000"),
    (
        "pods:\n  a: {id: x}\n  b: {id: x}",
        "web.yaml:4: pods.b: b has the id of a; remove its id, so that one is derived",
    ),
    (
        "pods: {a: {containers: {c: {id: x}}}, b: {containers: {c: {id: x}}}}",
        "pods.b: b/c has the id of a/c",
    ),
    ("pods: {a: {containers: {b: {kind: inti}}}}", "did you mean init?"),
    ("existing: {a: {}}\npods: {a: {uid: x}}", "it is listed in existing, too"),
    (
        "existing: {a: {containers: {b: {}}}}\npods: {a: {containers: {b: {}}}}",
        "it is listed in existing, too",
    ),
    ("runtime: containerd", "runtime: 'containerd' is unknown; did you mean containerd-"),
    ("runtime: {nri_version: 0.8.0}", "runtime: the key profile is missing"),
    ("runtime: {profile: cri-o, nri_version: new}", "nri_version 'new' is not a version"),
    ("runtime: {profile: cri-o, request_timeout: 2}", "'2' is not a duration"),
    ("every: 10", "every: '10' is not a duration; write for example 500ms or 2s"),
    ("every: 99999999999d", "is not a duration"),
    ("steps: []\nuntil: removed", "steps and until exclude each other"),
    ("until: gone", "until: 'gone' is unknown; known are running, stopped, removed"),
    ("start: 2026-02-30T00:00:00Z", "start: '2026-02-30T00:00:00Z' is not a time"),
    ("start: yesterday", "is not a time; write for example"),
    ("start: 9999-01-01T00:00:00Z", "outside of the years 1970 to"),
    (
        "steps:\n  - {}",
        "web.yaml:3: steps[0]: it does nothing; a step has one of run, create",
    ),
    ("steps: [{run: a, stop: a}]", "steps[0]: run and stop exclude each other"),
    ("steps: [{runs: a}]", "steps[0].runs: unknown key; did you mean run?"),
    ("steps: [{ValidateContainerAdjustment: a}]", "unknown key"),
    ("steps: [{restart: kubelet}]", "'kubelet' is unknown; known are runtime"),
    ("steps: [{repeat: 2}]", "steps[0].repeat: the key steps is missing"),
    ("steps: [{wait: 1s, pod: {}}]", "steps[0].wait: it takes no pod"),
    ("steps: [{run: a, container: {}}]", "it takes no container; it may have pod"),
    ("steps: [{stop: a, linux_resources: {}}]", "it takes no linux_resources"),
    ("steps: [{stop: a/b, container: {state: x}}]", "container.state: 'x' is unknown"),
    ("steps: [{stop: a/b, pod: {uid: absent, linux: gone}}]", "'gone' is not a mapping"),
    ("pods: {a: {", "web.yaml:3: not YAML"),
    ("pods: &a {}", "anchors and aliases are not supported"),
    ("pods: !x y", "the tag '!x' is not supported"),
    ("pods:\n", "a value is missing"),
]


@pytest.mark.parametrize(("text", "problem"), INVALID)
def test_an_invalid_scenario_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        scenario(text)
    error = str(raised.value)
    assert error.startswith("web.yaml:")
    assert problem in error and "\n" not in error


@given(
    st.sampled_from(["scenario", "runtime", "existing", "steps", "until", "every"]),
    st.integers(0, 3),
    st.booleans(),
)
def test_a_misspelt_key_is_named_with_the_right_one(key: str, at: int, is_longer: bool) -> None:
    wrong = f"{key[:at]}x{key[at:]}" if is_longer else f"{key[:at]}{key[at + 1 :]}"
    head = "" if key == "scenario" else "scenario: 1\n"
    with pytest.raises(UsageError) as raised:
        parse_scenario(f"{head}{wrong}: 1", "web.yaml")
    assert f"{wrong}: unknown key; did you mean {key}?" in str(raised.value)


def test_repeated_steps_have_a_depth() -> None:
    text = "steps: " + "[{repeat: 2, steps: " * 12 + "[]" + "}]" * 12
    with pytest.raises(UsageError, match="nested deeper than 8 levels"):
        scenario(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("scenrio: 1", "web.yaml:1: scenrio: unknown key; did you mean scenario?"),
        ("{}", "web.yaml:1: not a scenario: the key scenario is missing; add scenario: 1"),
        ("- a", "web.yaml:1: a list is not a mapping"),
        ("scenario: 2\nnew: {}", "web.yaml:1: scenario: version 2 is not supported: this nri-scope "
         "reads version 1; upgrade nri-scope"),
        ("scenario: 0", "0 is not between 1 and 1"),
        ("scenario: one", "'one' is not an integer"),
        ("scenario: true", "True is not an integer"),
    ],
)  # fmt: skip
def test_the_version_is_checked_first(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_scenario(text, "web.yaml")
    assert problem in str(raised.value)


@given(st.integers(0, 3 * 10**17))
@example(0)
@example(60 * 10**9)
def test_a_duration_is_read_as_written(duration_ns: int) -> None:
    found = scenario(f"every: {duration_text(duration_ns)}")
    assert found.pause_ns == duration_ns


@given(st.text(st.sampled_from("scenario: 1\npods{}[]abtepslu-/'\"#&*!.0"), max_size=80))
@example("scenario: 1\npods: {a: {containers: {b: {env: {c: d}}}}}")
def test_any_text_is_read_or_rejected(text: str) -> None:
    try:
        found = parse_scenario(text)
    except UsageError:
        return
    assert scenario_text(parse_scenario(scenario_text(found))) == scenario_text(found)
