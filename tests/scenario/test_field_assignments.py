# SPDX-License-Identifier: Apache-2.0
"""Changes of pods and containers by ``--set``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import UsageError
from nri_scope.scenario.field_assignments import assign_fields
from nri_scope.scenario.messages import message_form
from nri_scope.scenario.recorded_scenario import read_recording
from nri_scope.scenario.text import scenario_text
from tests.sample_names import CHECKOUT_API

from .scenarios import pods, scenario

TEXT = """\
existing: {kube-system/agent: {containers: {agent: {}}}}
pods:
  kube-system/agent: {containers: {late: {}}}
  shop/web:
    annotations: {a: b, 'x.y/z': '1'}
    containers:
      app:
        args: [sleep, '5']
        env: {A: '1', B: '2'}
        mounts:
          - {destination: /a, options: [ro]}
      app@2: {name: app}
steps:
  - run: shop/web
    pod: {annotations: {c: d}}
  - stop: shop/web
    pod: {labels: {e: f}}
"""
RECORDING = Path(__file__).parents[2] / "recordings" / "containerd-2.1.nriscope.db"


def changed(*texts: str) -> str:
    found = scenario(TEXT)
    assign_fields(found, texts)
    return scenario_text(found)


def app(*texts: str) -> dict[str, object]:
    found = scenario(TEXT.replace("      app@2: {name: app}\n", ""))
    assign_fields(found, texts)
    return dict(message_form(found.pods["shop/web"].containers["app"].message))


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        ("env.C=3", "env", {"A": "1", "B": "2", "C": "3"}),
        ("env.A=x=y", "env", {"A": "x=y", "B": "2"}),
        ("env.A-", "env", {"B": "2"}),
        ("env={}", "env", None),
        ("env-", "env", None),
        ("args[1]=6", "args", ["sleep", "6"]),
        ("args.2=7", "args", ["sleep", "5", "7"]),
        ("args[0]-", "args", ["5"]),
        ("args=[a, 'b c']", "args", ["a", "b c"]),
        (
            "mounts[0].source=/b",
            "mounts",
            [{"destination": "/a", "source": "/b", "options": ["ro"]}],
        ),
        ("linux.resources.memory.limit=5", "linux", {"resources": {"memory": {"limit": 5}}}),
        ('annotations["a.b/c"]=d', "annotations", {"a.b/c": "d"}),
        ("annotations.'a.b'=d", "annotations", {"a.b": "d"}),
        ('annotations."a.b"=d', "annotations", {"a.b": "d"}),
        ("annotations[a.b-c]=", "annotations", {"a.b-c": ""}),
        ("annotations.a-b-=d", "annotations", {"a-b-": "d"}),
        ("labels.x=true", "labels", {"x": "true"}),
        ("linux.namespaces.pid={path: /x}", "linux", {"namespaces": {"pid": {"path": "/x"}}}),
    ],
)
def test_changes_of_a_container(change: str, name: str, value: object) -> None:
    assert app(f"shop/web/app:{change}").get(name) == value


def test_changes_of_a_pod_reach_the_steps_that_replace_the_field() -> None:
    found = scenario(TEXT)
    assign_fields(found, ["shop/web:annotations.new=x", "shop/web:labels.g=h"])
    first, second = pods(scenario_text(found))
    assert first.annotations == second.annotations == {"c": "d", "new": "x"}
    assert [dict(first.labels), dict(second.labels)] == [{"g": "h"}, {"e": "f", "g": "h"}]


def test_all_containers_of_a_name_are_changed() -> None:
    text = changed("shop/web/app:env.NEW=1")
    assert text.count("NEW: '1'") == 2
    assert changed("shop/web/app@2:env.NEW=1").count("NEW: '1'") == 1


def test_keys_of_the_scenario_can_be_changed() -> None:
    assert "    copies: 3\n" in changed("shop/web:copies=3")
    assert "        kind: init\n" in changed("shop/web/app:kind=init")
    found = scenario(TEXT)
    assign_fields(found, ["kube-system/agent:labels.a=b", "kube-system/agent/late:args=[x]"])
    agent = found.pods["kube-system/agent"]
    assert [container.exists for container in agent.containers.values()] == [True, False]


def test_changes_apply_in_order_to_a_scenario_from_a_recording() -> None:
    found, _ = read_recording(RECORDING)
    before = scenario_text(found)
    assign_fields(found, [f"{CHECKOUT_API}:env.FOO=1", f"{CHECKOUT_API}:env.FOO=2"])
    after = scenario_text(found)
    assert after != before
    assert after.replace("FOO: '2'", "FOO: from-the-pod") == before


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("shop/web", "not a change; write it as 'shop/web/app:annotations.x=y'"),
        ("shop/web:", "not a change"),
        (":a=b", "not a change"),
        ("shop/web:a", "not a change"),
        ("shop/web:a.=b", "not a change"),
        ("shop/web:['a=b", "not a change"),
        ("shop/wep:labels.a=b", "there is no pod or container 'shop/wep'; did you mean shop/web?"),
        ("shop/web:label.a=b", "label: unknown key; did you mean labels?"),
        ("shop/web/app:labels.z-", "there is no 'z' to remove"),
        ("shop/web:annotations.q-", "there is no 'q' to remove; known are a, x.y/z"),
        ("shop/web:annotations.a.b=c", "'b' is inside of 'b'"),
        ("shop/web/app:args[x]=1", "'x' is not the number of an item; write [0]"),
        ("shop/web/app:args[5]=1", "there is no item 5; there are 2"),
        ("shop/web/app:args[2]-", "there is no item 2; there are 2"),
        ("shop/web/app:env={", "the value is not YAML"),
        (
            "shop/web/app:pid=x",
            "--set 'shop/web/app:pid=x': shop/web.containers.app.pid: 'x' is not an integer",
        ),
        ("shop/web/app:linux=", "linux: '' is not a mapping"),
    ],
)
def test_an_impossible_change_is_an_error(change: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        changed(change)
    assert problem in str(raised.value)
    assert str(raised.value).startswith("--set ") and "\n" not in str(raised.value)


@given(st.text(st.sampled_from("shop/web:labels.=-'\"[]{}a0 \n\\"), max_size=40))
def test_any_text_is_a_change_or_an_error(text: str) -> None:
    with suppress(UsageError):
        new = changed(f"shop/web:{text}")
        assert scenario_text(scenario(new)) == new
