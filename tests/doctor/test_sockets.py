# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from nri_scope.doctor.check import Check, Status
from nri_scope.doctor.sockets import (
    Listener,
    SocketFile,
    check_listener,
    check_socket,
    connect,
    look_at_socket,
)

from .machine import Machine

PATH = "/run/nri/nri.sock"


@pytest.fixture
def listening(machine: Machine) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(str(machine.at(PATH)))
        machine.at(PATH).chmod(0o600)
        machine.at(PATH).parent.chmod(0o700)
        sock.listen(0)
        yield sock


def by_name(checks: list[Check]) -> dict[str, Status]:
    return {check.name: check.status for check in checks}


def test_a_socket_in_a_closed_folder_is_as_it_should_be(
    machine: Machine, listening: socket.socket
) -> None:
    machine.link("/var/run", "/run")
    file = look_at_socket(machine.host, "/var/run/nri/nri.sock")
    assert file.is_socket
    assert (file.mode, file.folder_mode) == (0o600, 0o700)
    assert by_name(check_socket(file)) == {"socket": Status.OK, "socket-folder": Status.OK}


def test_no_socket_and_no_folder_are_told(machine: Machine) -> None:
    (check,) = check_socket(look_at_socket(machine.host, PATH))
    assert check.status is Status.FAIL
    assert check.detail == f"there is no {PATH}, nor its folder"
    machine.at(PATH)
    (check,) = check_socket(look_at_socket(machine.host, PATH))
    assert check.detail == f"there is no {PATH}"


def test_a_file_is_no_socket(machine: Machine) -> None:
    machine.write(PATH)
    (check,) = check_socket(look_at_socket(machine.host, PATH))
    assert (check.status, check.detail) == (Status.FAIL, f"{PATH} is no socket")


def test_a_hidden_folder_is_unknown(machine: Machine, unprivileged: None) -> None:
    machine.at(PATH).parent.chmod(0)
    (check,) = check_socket(look_at_socket(machine.host, PATH))
    assert check.status is Status.UNKNOWN
    assert "permission denied" in check.detail
    machine.at("/run/nri").chmod(0o700)


@pytest.mark.parametrize(
    ("folder", "mode", "status"),
    [
        (0o700, 0o777, Status.OK),
        (0o755, 0o600, Status.OK),
        (0o755, 0o666, Status.WARN),
        (0o750, 0o660, Status.WARN),
        (0o770, 0o600, Status.WARN),
        (0o777, 0o600, Status.WARN),
    ],
)
def test_who_else_can_connect(folder: int, mode: int, status: Status) -> None:
    file = SocketFile(PATH, "", True, True, mode, 0, folder)
    assert by_name(check_socket(file))["socket-folder"] is status


def test_the_listener_is_asked_of_the_kernel(machine: Machine, listening: socket.socket) -> None:
    machine.process(os.getpid(), "containerd")
    listener = connect(machine.host, PATH)
    assert (listener.pid, listener.uid) == (os.getpid(), os.getuid())
    assert listener.name == "containerd"
    assert check_listener(PATH, listener)[0].detail == f"containerd (process {os.getpid()}) listens"
    assert listener.descriptor is not None
    os.close(listener.descriptor)


def test_a_left_over_socket_is_told(machine: Machine, listening: socket.socket) -> None:
    listening.close()
    listener = connect(machine.host, PATH)
    assert listener.refused
    (check,) = check_listener(PATH, listener)
    assert check.status is Status.FAIL
    assert "left over" in check.detail


def test_a_full_queue_does_not_hang(machine: Machine, listening: socket.socket) -> None:
    waiting = []
    listener = connect(machine.host, PATH)
    while listener.descriptor is not None:
        waiting.append(listener.descriptor)
        listener = connect(machine.host, PATH)
    for descriptor in waiting:
        os.close(descriptor)
    assert listener.busy
    assert check_listener(PATH, listener)[0].status is Status.FAIL


def test_no_permission_and_too_long_a_path_are_told(machine: Machine) -> None:
    assert "107" in connect(machine.host, "/" + "x" * 120).problem
    (check,) = check_listener(PATH, Listener(problem="permission denied"))
    assert check.detail == f"cannot connect to {PATH}: permission denied"


@pytest.mark.parametrize(
    ("listener", "status"),
    [
        (Listener(pid=0), Status.UNKNOWN),
        (Listener(pid=1, name="systemd"), Status.OK),
        (Listener(pid=7, name="crio"), Status.OK),
        (Listener(pid=7, name="python3"), Status.WARN),
        (Listener(pid=7), Status.OK),
    ],
)
def test_listeners(listener: Listener, status: Status) -> None:
    assert check_listener(PATH, listener)[0].status is status
