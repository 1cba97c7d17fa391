# SPDX-License-Identifier: Apache-2.0
"""Removal of fields that a runtime ignores from replies."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.runtime.ignored_fields import IgnoredField, without

IGNORED = (
    IgnoredField("hooks.poststop", "/hooks/poststop", "no such hook"),
    IgnoredField("linux.resources.rdt_class", "/linux/intelRdt", "no RDT"),
    IgnoredField("linux.resources.memory", "/linux/resources/memory", "no memory"),
    IgnoredField("annotations", "/annotations", "no annotations"),
)


def reply_with_ignored_fields() -> api.CreateContainerResponse:
    reply = api.CreateContainerResponse()
    reply.adjust.hooks.poststop.add(path="/bin/one")
    reply.adjust.hooks.poststop.add(path="/bin/two")
    reply.adjust.hooks.prestart.add(path="/bin/kept")
    reply.adjust.annotations["key"] = "value"
    reply.adjust.linux.resources.rdt_class.value = "gold"
    update = reply.update.add(container_id="other")
    update.linux.resources.memory.limit.value = 5
    update.linux.resources.cpu.shares.value = 7
    return reply


def test_each_dropped_field_has_its_plugin_container_and_reason() -> None:
    reply = reply_with_ignored_fields()
    rest, dropped = without(IGNORED, reply, "10-a", "mine")
    assert [(one.container_id, one.path, one.value, one.reason) for one in dropped] == [
        ("mine", "/hooks/poststop", "/bin/one, /bin/two", "no such hook"),
        ("mine", "/linux/intelRdt", "gold", "no RDT"),
        ("mine", "/annotations", "key", "no annotations"),
        ("other", "/linux/resources/memory", "limit { value: 5 }", "no memory"),
    ]
    assert {one.plugin for one in dropped} == {"10-a"}
    expected = api.CreateContainerResponse()
    expected.adjust.hooks.prestart.add(path="/bin/kept")
    expected.adjust.linux.resources.SetInParent()
    expected.update.add(container_id="other").linux.resources.cpu.shares.value = 7
    assert rest == expected
    assert reply == reply_with_ignored_fields()


def test_reply_without_ignored_fields_is_unchanged() -> None:
    reply = api.StopContainerResponse()
    reply.update.add(container_id="other").linux.resources.cpu.shares.value = 7
    assert without(IGNORED, reply, "10-a", "mine") == (reply, [])
    assert without((), reply_with_ignored_fields(), "10-a", "mine") == (
        reply_with_ignored_fields(),
        [],
    )
