# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from nri_scope.doctor.check import Check, Health
from nri_scope.doctor.sockets import (
    ListeningProcess,
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


def by_name(checks: list[Check]) -> dict[str, Health]:
    return {check.name: check.status for check in checks}


def test_a_socket_in_a_private_folder_is_ok(machine: Machine, listening: socket.socket) -> None:
    machine.link("/var/run", "/run")
    file = look_at_socket(machine.host, "/var/run/nri/nri.sock")
    assert file.is_socket
    assert (file.mode, file.folder_mode) == (0o600, 0o700)
    assert by_name(check_socket(file)) == {
        "socket": Health.OK,
        "socket-folder": Health.OK,
    }


def test_a_missing_socket_and_a_missing_folder_are_reported(machine: Machine) -> None:
    (check,) = check_socket(look_at_socket(machine.host, PATH))
    assert check.status is Health.FAIL
    assert check.detail == f"{PATH} does not exist, nor does its folder"
    machine.at(PATH)
    (check,) = check_socket(look_at_socket(machine.host, PATH))
    assert check.detail == f"{PATH} does not exist"


def test_a_regular_file_is_not_a_socket(machine: Machine) -> None:
    machine.write(PATH)
    (check,) = check_socket(look_at_socket(machine.host, PATH))
    assert (check.status, check.detail) == (Health.FAIL, f"{PATH} is not a socket")


def test_an_inaccessible_folder_is_unknown(machine: Machine, unprivileged: None) -> None:
    machine.at(PATH).parent.chmod(0)
    (check,) = check_socket(look_at_socket(machine.host, PATH))
    assert check.status is Health.UNKNOWN
    assert "permission denied" in check.detail
    machine.at("/run/nri").chmod(0o700)


@pytest.mark.parametrize(
    ("folder", "mode", "status"),
    [
        (0o700, 0o777, Health.OK),
        (0o755, 0o600, Health.OK),
        (0o755, 0o666, Health.WARN),
        (0o750, 0o660, Health.WARN),
        (0o770, 0o600, Health.WARN),
        (0o777, 0o600, Health.WARN),
    ],
)
def test_modes_that_let_other_users_connect_are_warnings(
    folder: int, mode: int, status: Health
) -> None:
    file = SocketFile(PATH, "", True, True, mode, 0, folder)
    assert by_name(check_socket(file))["socket-folder"] is status


@pytest.mark.parametrize(
    ("folder", "mode", "words"),
    [
        (0o700, 0o777, "0700: only its owner may enter it"),
        (0o644, 0o777, "0644: only its owner may enter it"),
        (0o755, 0o600, "0755: all users may enter it, but the socket's mode 0600 lets only its"),
        (0o750, 0o600, "0750: only its owner and its group may enter it, but the socket's mode"),
        (0o755, 0o666, "0755: all users may enter it, and with the socket's mode 0666 other users"),
        (0o701, 0o602, "0701: all users but its group may enter it, and with the socket's mode"),
        (0o777, 0o600, "0777: other users than its owner can replace the socket"),
        (0o1777, 0o600, "1777: all users may enter it, but the socket's mode 0600"),
        (0o722, 0o600, "0722: only its owner may enter it"),
    ],
)
def test_the_folder_s_mode_determines_the_users_reported(
    folder: int, mode: int, words: str
) -> None:
    file = SocketFile(PATH, "", True, True, mode, 0, folder)
    detail = {check.name: check.detail for check in check_socket(file)}["socket-folder"]
    assert detail.startswith(f"/run/nri has mode {words}")


def test_the_listener_is_identified_by_the_kernel(
    machine: Machine, listening: socket.socket
) -> None:
    machine.process(os.getpid(), "containerd")
    listener = connect(machine.host, PATH)
    assert (listener.pid, listener.uid) == (os.getpid(), os.getuid())
    assert listener.name == "containerd"
    assert check_listener(PATH, listener)[0].detail == f"containerd (process {os.getpid()}) listens"
    assert listener.descriptor is not None
    os.close(listener.descriptor)


def test_a_left_over_socket_is_a_failure(machine: Machine, listening: socket.socket) -> None:
    listening.close()
    listener = connect(machine.host, PATH)
    assert isinstance(listener.error, ConnectionRefusedError)
    (check,) = check_listener(PATH, listener)
    assert check.status is Health.FAIL
    assert "left over" in check.detail


def test_a_full_queue_does_not_block(machine: Machine, listening: socket.socket) -> None:
    waiting = []
    listener = connect(machine.host, PATH)
    while listener.descriptor is not None:
        waiting.append(listener.descriptor)
        listener = connect(machine.host, PATH)
    for descriptor in waiting:
        os.close(descriptor)
    assert isinstance(listener.error, BlockingIOError | TimeoutError)
    assert check_listener(PATH, listener)[0].status is Health.FAIL


def test_a_path_that_is_too_long_is_a_failure(machine: Machine) -> None:
    listener = connect(machine.host, "/" + "x" * 120)
    assert "107" in str(listener.error)
    assert check_listener(PATH, listener)[0].status is Health.FAIL


@pytest.mark.parametrize("closed", ["/run/nri", PATH])
def test_an_inaccessible_folder_or_socket_is_unknown(
    machine: Machine, unprivileged: None, listening: socket.socket, closed: str
) -> None:
    place = machine.at(closed)
    place.chmod(0)
    listener = connect(machine.host, PATH)
    (check,) = check_listener(PATH, listener)
    assert check.status is Health.UNKNOWN
    assert check.detail == f"cannot connect to {PATH}: permission denied"
    assert check.fix == "run doctor as root"
    found = by_name(check_socket(look_at_socket(machine.host, PATH)))
    assert found["socket"] is (Health.OK if closed == PATH else Health.UNKNOWN)
    place.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_without_access_is_not_advised_to_become_root() -> None:
    (check,) = check_listener(
        PATH, ListeningProcess(PermissionError(errno.EACCES, "Permission denied"))
    )
    assert check.status is Health.UNKNOWN
    assert "as root" not in check.fix


@pytest.mark.parametrize(
    ("listener", "status"),
    [
        (ListeningProcess(pid=0), Health.UNKNOWN),
        (ListeningProcess(pid=1, name="systemd"), Health.OK),
        (ListeningProcess(pid=7, name="crio"), Health.OK),
        (ListeningProcess(pid=7, name="python3"), Health.WARN),
        (ListeningProcess(pid=7), Health.OK),
    ],
)
def test_listeners_other_than_a_runtime_are_warnings(
    listener: ListeningProcess, status: Health
) -> None:
    assert check_listener(PATH, listener)[0].status is status


def test_a_runtime_as_process_1_is_not_reported_as_a_service_manager() -> None:
    (check,) = check_listener(PATH, ListeningProcess(pid=1, name="containerd"))
    assert check.detail == "containerd (process 1) listens"
