# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.live import ChainWatch
from tests.recording.made import an_event

VALIDATE = "ValidateContainerAdjustment"


def _request(*plugins: str) -> bytes:
    instances = [
        api.PluginInstance(name=name, index=index)
        for index, _, name in (plugin.partition("-") for plugin in plugins)
    ]
    return api.ValidateContainerAdjustmentRequest(plugins=instances).SerializeToString()


def test_other_plugins_in_the_chain_are_reported_once() -> None:
    watch = ChainWatch("probe")
    event = an_event(1, event=VALIDATE)
    assert watch.look(event, _request("00-probe", "60-b", "20-a", "99-probe")) == ("20", "60")
    assert watch.look(event, _request("00-probe", "20-a", "60-b")) is None
    assert watch.look(event, _request("20-a", "60-b", "60-c")) == ("20", "60", "60")
    assert watch.look(event, _request("00-probe")) == ()


def test_other_events_and_invalid_requests_are_ignored() -> None:
    watch = ChainWatch("probe")
    assert watch.look(an_event(1), _request("20-a")) is None
    assert watch.look(an_event(1, event=VALIDATE), b"\xff\xff") is None
    assert watch.look(an_event(1, event=VALIDATE), _request("xx-a")) is None
    assert watch.look(an_event(1, event=VALIDATE, mark="unknown"), _request("20-a")) is None
