# SPDX-License-Identifier: Apache-2.0
"""Replies, and strategies for them."""

from __future__ import annotations

import string

from google.protobuf.message import Message
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.plain import Plain
from nri_scope.replay.golden import Golden, Origin
from nri_scope.replay.golden.matchers import Expected
from nri_scope.replay.replies import Reply, Verdict

ORIGIN = Origin("containerd 2.1.9, 8 events of 2 containers", "0123456789012345", "recorded")
APP = "shop/web/app"


def name_of(container_id: str) -> str:
    return {"c1": APP, "c2": "shop/web/sidecar"}.get(container_id, "")


def a_reply(
    event: str = "CreateContainer",
    message: Message | None = None,
    *,
    subject: str = APP,
    occurrence: int = 1,
    plugin: str = "10-mine",
    verdict: Verdict = Verdict.OK,
    problem: str = "",
) -> Reply:
    return Reply(7, event, plugin, subject, occurrence, message, verdict, problem, 5, 10)


def setting(shares: int = 512, /, **env: str) -> api.CreateContainerResponse:
    message = api.CreateContainerResponse()
    message.adjust.linux.resources.cpu.shares.value = shares
    for key, value in env.items():
        message.adjust.env.add(key=key, value=value)
    return message


def golden_of(*replies: Reply) -> Golden:
    return Golden.of(replies, ORIGIN, name_of)


texts = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from("\n\r\x1b\x85\u2028\u202e\ufeff\U0001f600:#'\"\\- \t,[]{}!&*?|>%@`=~"),
    max_size=12,
) | st.sampled_from(
    [
        *("no", "y", "null", "~", "true", "1", "0755", "1.10", "1e5", "0x1f", ".inf", "-1", "- a"),
        *("2026-11-21", "1:30", "<<", "=", "---", "...", "a: b", "a #b", "a:", "#1", "x y", "1_0"),
        *("'", '"', "\\", "\n", "a\n", "a\n\n", "\na", " a", "a ", "a\n b\n\nc", "k" * 1100, "|"),
        *("destination", "flags", "quiet", "removed", "-removed", "!regex", "é", "a,b", "a, b"),
    ]
)
numbers = st.integers(-(2**63), 2**64 - 1)
plains: st.SearchStrategy[Plain] = st.recursive(
    st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
subjects = st.sampled_from(["", "shop/web", APP, "a/b/c", "kube-system/x.y/z"]) | texts
events = st.sampled_from(["CreateContainer", "StopContainer", "Synchronize", "quiet"]) | texts
words = st.text(string.ascii_letters, max_size=3)


@st.composite
def creations(draw: st.DrawFn) -> api.CreateContainerResponse:
    message = api.CreateContainerResponse()
    for key, value in draw(st.dictionaries(texts, texts, max_size=3)).items():
        message.adjust.annotations[key] = value
    for key in draw(st.lists(texts, max_size=3)):
        message.adjust.env.add(key=key, value=draw(texts))
    for destination in draw(st.lists(texts, max_size=3)):
        mount = message.adjust.mounts.add(destination=destination, source=draw(words))
        mount.options.extend(draw(st.lists(texts, max_size=3)))
    message.adjust.args.extend(draw(st.lists(texts, max_size=3)))
    for name in draw(st.lists(texts, max_size=3)):
        message.adjust.CDI_devices.add(name=name)
    if draw(st.booleans()):
        message.adjust.linux.resources.cpu.quota.value = draw(st.integers(-(2**63), 2**63 - 1))
    for container in draw(st.lists(st.sampled_from(["c1", "c2", "c3"]), max_size=3)):
        message.update.add(container_id=container).linux.resources.pids.SetInParent()
    return message


replies: st.SearchStrategy[list[Reply]] = st.lists(
    st.builds(
        a_reply,
        events,
        st.none() | creations(),
        subject=subjects,
        occurrence=st.integers(1, 3),
        plugin=st.sampled_from(["10-mine", "20-other"]) | texts,
        verdict=st.sampled_from(Verdict),
        problem=texts,
    ),
    max_size=6,
)


def as_expected(value: Plain) -> Expected:
    if isinstance(value, dict):
        return {key: as_expected(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_expected(item) for item in value]
    return value
