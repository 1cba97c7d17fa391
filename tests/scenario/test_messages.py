# SPDX-License-Identifier: Apache-2.0
"""NRI's messages as editable YAML: complete in both directions, and strict."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.scenario.messages import FieldsReader, message_form
from nri_scope.scenario.model import Position
from nri_scope.text.yaml_reader import parse_yaml
from nri_scope.text.yaml_text import to_yaml
from tests.oci.random_messages import RandomMessages

UNKNOWN = bytes.fromhex("92f6060568656c6c6f")
"""Field 14178, a text."""


def read(text: str, kind: type[Message] = api.Container) -> Message:
    return FieldsReader(kind).read(parse_yaml(text), Position("x.yaml", 1))


def written(message: Message) -> str:
    return to_yaml(message_form(message), short_lists=True) or "{}\n"


@given(st.integers(0, 2**32))
def test_a_message_is_read_as_written(seed: int) -> None:
    message = RandomMessages(seed).container()
    if seed % 3 == 0:
        message.MergeFromString(UNKNOWN)
        message.linux.MergeFromString(UNKNOWN)
    text = written(message)
    assert read(text) == message
    assert read(text).SerializeToString(deterministic=True) == message.SerializeToString(
        deterministic=True
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"env": ["A=1", "B=", "C=x=y"]}, "env:\n  A: '1'\n  B: ''\n  C: x=y\n"),
        ({"env": ["A=1", "A=2"]}, "env: [A=1, A=2]\n"),
        ({"env": ["A"]}, "env: [A]\n"),
        (
            {"rlimits": [api.POSIXRlimit(type="RLIMIT_CORE", hard=2**64 - 1)]},
            "rlimits:\n  RLIMIT_CORE: {hard: 18446744073709551615}\n",
        ),
        (
            {"mounts": [api.Mount(destination="/a", options=["ro", "x,y"])]},
            "mounts:\n  - {destination: /a, options: [ro, 'x,y']}\n",
        ),
        ({"hooks": api.Hooks()}, "hooks: {}\n"),
        ({"state": 3}, "state: CONTAINER_RUNNING\n"),
        ({"state": 77}, "state: 77\n"),
        ({"labels": {"b": "", "a": "true"}}, "labels:\n  a: 'true'\n  b: ''\n"),
        (
            {"linux": api.LinuxContainer(oom_score_adj=api.OptionalInt())},
            "linux:\n  oom_score_adj: 0\n",
        ),
    ],
)
def test_forms(fields: dict[str, object], text: str) -> None:
    message = api.Container(**fields)  # type: ignore[arg-type]
    assert written(message) == text
    assert read(text) == message


def test_values_that_people_write_are_read() -> None:
    text = """\
labels: {tier: 1, on: true}
env: {REPLICAS: 3, DEBUG: false}
linux:
  namespaces:
    - {type: pid, path: /proc/1/ns/pid}
  resources:
    memory: {limit: {value: 5}}
"""
    message = api.Container(labels={"tier": "1", "on": "true"}, env=["REPLICAS=3", "DEBUG=false"])
    message.linux.namespaces.add(type="pid", path="/proc/1/ns/pid")
    message.linux.resources.memory.limit.value = 5
    assert read(text) == message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("envs: {}", "x.yaml:1: envs: unknown key; did you mean env?"),
        ("linux:\n  resources:\n    cpu: {share: 1}", "x.yaml:3: linux.resources.cpu.share: unkn"),
        ("env: 5", "x.yaml:1: env: 5 is not a list"),
        ("env: {A: [1]}", "x.yaml:1: env.A: a list is not a text"),
        ("args: {a: b}", "args: a mapping is not a list"),
        ("labels: [a]", "labels: a list is not a mapping"),
        ("pid: -1", "pid: -1 is not between 0 and 4294967295"),
        ("pid: x", "pid: 'x' is not an integer"),
        ("pid: true", "pid: True is not an integer"),
        ("state: RUNNING", "state: 'RUNNING' is unknown; did you mean CONTAINER_RUNNING?"),
        ("mounts:\n  - ro\n", "x.yaml:2: mounts[0]: 'ro' is not a mapping"),
        ("linux:\n  namespaces:\n    pid: {type: x}", "x.yaml:3: linux.namespaces.pid.type: it is"),
        ("linux: {resources: {memory: {disable_oom_killer: 1}}}", "1 is neither true nor false"),
        ("unknown_fields: xx", "unknown_fields: not hexadecimal protobuf"),
        ("unknown_fields: 'ff'", "unknown_fields: not hexadecimal protobuf"),
        ("linux: absent", "linux: 'absent' is not a mapping"),
    ],
)
def test_an_invalid_message_is_rejected_with_line_and_path(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(text)
    assert problem in str(raised.value)
