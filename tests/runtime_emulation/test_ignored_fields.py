# SPDX-License-Identifier: Apache-2.0
"""Removal of fields that a runtime ignores from replies."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.runtime.ignored_fields import IgnoredField, without

LACKS = (
    IgnoredField("hooks.poststop", "/hooks/poststop", "no such hook"),
    IgnoredField("linux.resources.rdt_class", "/linux/intelRdt", "no RDT"),
    IgnoredField("linux.resources.memory", "/linux/resources/memory", "no memory"),
    IgnoredField("annotations", "/annotations", "no annotations"),
)


def asking() -> api.CreateContainerResponse:
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


def test_each_thing_is_told_with_its_plugin_container_and_reason() -> None:
    reply = asking()
    rest, dropped = without(LACKS, reply, "10-a", "mine")
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
    assert reply == asking()


def test_reply_that_asks_for_none_of_it_is_left_as_it_is() -> None:
    reply = api.StopContainerResponse()
    reply.update.add(container_id="other").linux.resources.cpu.shares.value = 7
    assert without(LACKS, reply, "10-a", "mine") == (reply, [])
    assert without((), asking(), "10-a", "mine") == (asking(), [])
