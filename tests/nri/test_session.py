# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import LocalProtocolError, RemoteProtocolError
from nri_scope.nri.session import (
    TRANSITIONS,
    ConnectionEnd,
    ConnectionState,
    MessageKind,
    SetupState,
    check_part_reply,
)

NORMAL_SEQUENCE = [
    (MessageKind.REGISTER, SetupState.REGISTERING),
    (MessageKind.REGISTER_REPLY, SetupState.REGISTERED),
    (MessageKind.CONFIGURE, SetupState.CONFIGURING),
    (MessageKind.CONFIGURE_REPLY, SetupState.CONFIGURED),
    (MessageKind.SYNCHRONIZE, SetupState.SYNCHRONIZING),
    (MessageKind.SYNCHRONIZE_REPLY, SetupState.READY),
    (MessageKind.EVENT, SetupState.READY),
    (MessageKind.UPDATE_CONTAINERS, SetupState.READY),
    (MessageKind.SHUTDOWN, SetupState.SHUTTING_DOWN),
]


def at(state: SetupState, role: ConnectionEnd = ConnectionEnd.PLUGIN) -> ConnectionState:
    session = ConnectionState(role)
    session.state = state
    return session


@pytest.mark.parametrize("role", ConnectionEnd)
def test_a_normal_session(role: ConnectionEnd) -> None:
    session = ConnectionState(role)
    for kind, state in NORMAL_SEQUENCE:
        assert session.feed(kind) is state
    session.close()
    assert session.state is SetupState.CLOSED


def test_configure_may_precede_the_registration_reply() -> None:
    session = ConnectionState(ConnectionEnd.PLUGIN)
    for kind in (
        MessageKind.REGISTER,
        MessageKind.CONFIGURE,
        MessageKind.REGISTER_REPLY,
        MessageKind.CONFIGURE_REPLY,
    ):
        session.feed(kind)
    assert session.state is SetupState.CONFIGURED


def test_a_split_synchronize_ends_with_its_last_part() -> None:
    session = at(SetupState.CONFIGURED)
    for _ in range(3):
        session.feed(MessageKind.SYNCHRONIZE_PART)
        session.feed(MessageKind.SYNCHRONIZE_PART_REPLY)
        assert not session.ready
    session.feed(MessageKind.SYNCHRONIZE)
    session.feed(MessageKind.SYNCHRONIZE_REPLY)
    assert session.ready


@pytest.mark.parametrize(
    "kind",
    [MessageKind.CONFIGURE, MessageKind.SYNCHRONIZE, MessageKind.EVENT, MessageKind.SHUTDOWN],
)
def test_a_runtime_must_not_call_before_the_registration(kind: MessageKind) -> None:
    with pytest.raises(RemoteProtocolError, match=r"the runtime sent .* while connected"):
        ConnectionState(ConnectionEnd.PLUGIN).feed(kind)
    with pytest.raises(LocalProtocolError, match="while connected"):
        ConnectionState(ConnectionEnd.RUNTIME).feed(kind)


def test_a_plugin_registers_once() -> None:
    session = ConnectionState(ConnectionEnd.RUNTIME)
    session.feed(MessageKind.REGISTER)
    with pytest.raises(RemoteProtocolError, match="the plugin sent RegisterPlugin while registeri"):
        session.feed(MessageKind.REGISTER)


@given(st.sampled_from(ConnectionEnd), st.lists(st.sampled_from(MessageKind), max_size=30))
def test_any_message_is_accepted_or_rejected_without_a_state_change(
    role: ConnectionEnd, kinds: list[MessageKind]
) -> None:
    session = ConnectionState(role)
    for kind in kinds:
        before = session.state
        try:
            after = session.feed(kind)
        except LocalProtocolError:
            assert kind.sender is role and session.state is before
        except RemoteProtocolError:
            assert kind.sender is not role and session.state is before
        else:
            assert TRANSITIONS[before, kind] is after is session.state


def test_every_state_is_reachable_and_final_states_have_no_transition() -> None:
    assert set(TRANSITIONS.values()) == set(SetupState) - {SetupState.CONNECTED, SetupState.CLOSED}
    assert not any(
        state in (SetupState.SHUTTING_DOWN, SetupState.CLOSED) for state, _ in TRANSITIONS
    )


def test_a_part_reply_must_have_more_and_no_updates() -> None:
    check_part_reply(api.SynchronizeResponse(more=True))
    with pytest.raises(RemoteProtocolError, match="in parts"):
        check_part_reply(api.SynchronizeResponse())
    with pytest.raises(RemoteProtocolError, match="before the last part"):
        check_part_reply(api.SynchronizeResponse(more=True, update=[api.ContainerUpdate()]))
