# SPDX-License-Identifier: Apache-2.0
"""Bounds on the work of redaction, which these tests count."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE
from nri_scope.recording.cri_answers import status_request
from nri_scope.share.redaction import Redactor, Rules
from nri_scope.share.redaction.engine import Engine
from nri_scope.share.redaction.known_values import KnownValues, Strength
from nri_scope.share.redaction.limits import Memory
from tests.amount import amount

KEY = bytes(32)
SECRET = "hunter2-hunter2"
Shape = Callable[[int], api.Container]


def _addresses(count: int) -> str:
    return " ".join(f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in range(count))


def _nested(count: int) -> str:
    text = json.dumps({"a": [{"password": f"x{count}y"}, "password=hunter2 " * count]})
    for _ in range(2):
        text = base64.b64encode(json.dumps({"in": text}).encode()).decode()
    return text


SHAPES: dict[str, Shape] = {
    "one giant variable": lambda n: api.Container(env=["A=" + "x1" * (8 * n)]),
    "variables": lambda n: api.Container(env=[f"V{i}=value-{i}" for i in range(n)]),
    "credentials": lambda n: api.Container(env=[f"PASSWORD_{i}=v{i}x" for i in range(n)]),
    "annotations": lambda n: api.Container(annotations={f"k{i}": f"v-{i}" for i in range(n)}),
    "keyed annotations": lambda n: api.Container(
        annotations={f"token-{i}": f"v-{i}" for i in range(n)}
    ),
    "addresses": lambda n: api.Container(args=_addresses(n).split()),
    "addresses in texts": lambda n: api.Container(args=[_addresses(50)] * (n // 50)),
    "keys in texts": lambda n: api.Container(
        args=[" ".join(f"password={i}a{j}" for j in range(50)) for i in range(n // 50)]
    ),
    "mails": lambda n: api.Container(
        args=[" ".join(f"a{j}@b{i}.com" for j in range(50)) for i in range(n // 50)]
    ),
    "nested": lambda n: api.Container(annotations={f"a{i}": _nested(20) for i in range(n // 40)}),
    "near needles": lambda n: api.Container(
        env=[f"PASSWORD={SECRET}"], args=[SECRET[:-1] * 20] * (n // 20)
    ),
    "nested secrets": lambda n: api.Container(
        env=[f"PASSWORD_{i}={'x' * (20 + i)}" for i in range(n // 20)], args=["x" * n]
    ),
    "sysctl": lambda n: _with_sysctl({f"k{i}": f"v-{i}" for i in range(n)}),
    "mounts": lambda n: api.Container(
        mounts=[api.Mount(destination=f"/d/{i}", options=[f"o{i}"]) for i in range(n // 2)]
    ),
}


def _with_sysctl(entries: dict[str, str]) -> api.Container:
    container = api.Container()
    container.linux.sysctl.update(entries)
    return container


class Work:
    """Counts of searched characters and remembered values."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.characters = self.values = 0
        redacted, add = Engine._redact_passes, KnownValues.add

        def counted(self_: Engine, text: str, place: str, depth: int, *, is_key: bool) -> str:
            self.characters += len(text)
            return redacted(self_, text, place, depth, is_key=is_key)

        def added(self_: KnownValues, value: str, rule: str, strength: Strength) -> str:
            self.values += 1
            return add(self_, value, rule, strength)

        patch.setattr(Engine, "_redact_passes", counted)
        patch.setattr(KnownValues, "add", added)


def a_message(container: api.Container) -> bytes:
    container.id, container.name = "c1", "app"
    pod = api.PodSandbox(id="p1", name="web", namespace="shop")
    return api.CreateContainerRequest(pod=pod, container=container).SerializeToString()


@pytest.mark.parametrize("shape", SHAPES)
def test_work_is_linear_in_the_size(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work = []
    for size in 400, 800:
        with monkeypatch.context() as patch:
            counted = Work(patch)
            redactor = Redactor(Rules.DEFAULT, KEY)
            redactor.request("CreateContainer", a_message(SHAPES[shape](size)))
            work.append((counted.characters + 1_000, counted.values + 50))
    (characters, values), (more_characters, more_values) = work
    assert more_characters <= 2.5 * characters
    assert more_values <= 2.5 * values


@pytest.mark.exhaustive
@settings(max_examples=amount(40, 40), deadline=None)
@given(
    shapes=st.lists(st.sampled_from(sorted(SHAPES)), min_size=1, max_size=3),
    size=st.sampled_from([3_000, 6_000]),
    as_status=st.booleans(),
)
def test_work_for_one_message_is_bounded_while_recording(
    shapes: list[str], size: int, as_status: bool
) -> None:
    part = 20_000
    container = api.Container()
    for shape in shapes:
        container.MergeFrom(SHAPES[shape](size))
    message = a_message(container)
    with pytest.MonkeyPatch.context() as patch:
        work = Work(patch)
        redactor = Redactor(Rules.DEFAULT, KEY, memory=Memory(part=part, message=3 * part))
        if as_status:
            spec = {"env": list(container.env), "args": list(container.args)}
            reply = json.dumps({"runtimeSpec": {"process": spec}}).encode()
            redactor.request(CONTAINER_STATUS, status_request("c1"), service=CRI_SERVICE)
            given_ = redactor.reply(CONTAINER_STATUS, reply, service=CRI_SERVICE)
        else:
            given_ = redactor.request("CreateContainer", message)
    # Each started text is finished, in a few passes.
    assert work.characters <= 40 * (part + 65_536)
    assert work.values <= 20 * part // 32
    assert b"value-2999" not in given_ and b"v-2999" not in given_


@pytest.mark.parametrize("in_order", [True, False])
def test_unsearched_text_is_replaced_equally_in_each_event(in_order: bool) -> None:
    container = SHAPES["variables"](2_000)
    content = a_message(container)
    container.state = api.CONTAINER_RUNNING
    other = a_message(container)
    redactor = Redactor(Rules.DEFAULT, KEY, memory=Memory(part=20_000, message=60_000))
    shown = []
    for message in (content, other) if in_order else (other, content):
        given_ = redactor.request("CreateContainer", message)
        shown.append(api.CreateContainerRequest.FromString(given_).container)
        assert redactor.request("CreateContainer", message) == given_

    assert list(shown[0].env) == list(shown[1].env)
    assert "long-texts" in redactor.tally.by_rule()
    assert (shown[0].id, shown[0].name) == ("c1", "app")
    assert 50 < len(shown[0].env) < 2_000 and shown[0].env[0].startswith("V0=redacted-")


def test_all_containers_in_synchronize_are_redacted() -> None:
    message = api.SynchronizeRequest()
    for number in range(400):
        container = message.containers.add(id=f"c{number}", name="app", pod_sandbox_id="p1")
        container.args.extend(["serve", f"--token=t{number}x"])
        container.env.append("PATH=/bin")
    redactor = Redactor(Rules.DEFAULT, KEY, memory=Memory(part=20_000, message=4 << 20))
    given_ = redactor.request("Synchronize", message.SerializeToString())
    shown = api.SynchronizeRequest.FromString(given_)

    assert all(list(one.env) == ["PATH=/bin"] for one in shown.containers)
    assert len({one.args[1] for one in shown.containers}) == 400
    assert "long-texts" not in redactor.tally.by_rule()
