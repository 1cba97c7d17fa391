# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import METHODS, STATE_CHANGE_EVENTS, EventKind


def test_the_method_table_equals_the_api_s_services() -> None:
    declared = {
        (service.full_name, method.name): (
            method.input_type.full_name,
            method.output_type.full_name,
        )
        for service in map(api.DESCRIPTOR.services_by_name.__getitem__, ("Plugin", "Runtime"))
        for method in service.methods
    }
    known = {
        (method.service, method.name): (
            method.request.DESCRIPTOR.full_name,
            method.reply.DESCRIPTOR.full_name,
        )
        for method in METHODS.values()
    }
    assert known == declared


def test_every_event_has_the_method_of_its_name() -> None:
    assert {m.event: m.name for m in METHODS.values() if m.event} == {e: e.name for e in EventKind}


def test_nine_events_were_sent_as_state_change() -> None:
    assert {int(event) for event in STATE_CHANGE_EVENTS} == {1, 2, 3, 5, 6, 7, 9, 11, 13}
