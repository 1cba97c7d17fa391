# SPDX-License-Identifier: Apache-2.0
"""Whatever kubectl prints is one clear line, within bounds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri_scope.cluster import kubectl as module
from nri_scope.cluster.agent_pods import AGENT_FIELDS, agent_pods
from nri_scope.cluster.kubectl import ForwardError, Kubectl
from nri_scope.errors import UsageError
from tests.cluster.fake_kubectl import agent_pod, install, pod, printed
from tests.cluster.live_node import processes, until
from tests.cluster.plugin_command import KUBECTL, run

Script = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Install a shell script as ``kubectl``; return its path."""

    def install(text: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        file = folder / "kubectl"
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return file

    return install


FORBIDDEN = (
    'Error from server (Forbidden): pods is forbidden: User "nobody" cannot list resource "pods" '
    'in API group "" in the namespace "nri-scope"'
)
FORWARD_FORBIDDEN = (
    'error: error upgrading connection: pods "nri-scope-a" is forbidden: User "bob" cannot create '
    'resource "pods/portforward" in API group "" in the namespace "nri-scope"'
)
REFUSED = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host?"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"echo '{FORBIDDEN}' >&2; exit 1", FORBIDDEN.removeprefix("Error from server ")[13:]),
        (f"echo 'E1127 memcache.go: x' >&2; echo '{REFUSED}' >&2; exit 1", REFUSED),
        ("echo 'error: unknown flag: --x' >&2; echo 'See kubectl --help' >&2; exit 1", "unknown"),
        ("exit 3", "it failed without a message"),
        ("echo hello", "it printed no list"),
        ("printf 'a\\tb\\t'", "it printed no list"),
        ("head -c 2000000 /dev/zero | tr '\\0' '\\t'", "it printed no list"),
        ("true", "no agent runs in namespace nri-scope"),
        ("read -r password </dev/tty || exit 1", "/dev/tty"),
        ("printf '\\033[31mred\\033[0m\\n' >&2; exit 1", "\\x1b[31mred\\x1b[0m"),
    ],
)
async def test_a_failure_is_one_line(script: Script, text: str, line: str) -> None:
    script(text)
    done = await run(KUBECTL, "status")
    assert (done.status, done.output) == (2, "")
    assert line in done.errors and done.errors.count("\n") == 1, done.errors
    assert "\x1b" not in done.errors


def listing(script: Script, before: str = "true") -> Callable[..., None]:
    """Install a kubectl that lists pods; return the function that sets them."""
    file = script(f'{before}; cat "$(dirname "$0")/pods"')
    template = '{"\\t"}'.join(f"{{{field}}}" for field in AGENT_FIELDS) + '{"\\n"}'

    def list_pods(*pods: dict[str, Any]) -> None:
        (file.parent / "pods").write_text(printed(list(pods), template))

    return list_pods


async def test_warnings_are_ignored(script: Script) -> None:
    listing(script, "echo 'Warning: deprecated' >&2")(agent_pod("node"))
    assert list(await agent_pods(Kubectl())) == ["node"]


@pytest.mark.parametrize("name", ["../../etc", "a/b", "\x1b[31m", "-o", "", "x" * 300])
@pytest.mark.parametrize("place", ["name", "node"])
async def test_names_that_are_none_are_refused(script: Script, name: str, place: str) -> None:
    item = agent_pod("node")
    if place == "name":
        item["metadata"]["name"] = name
    else:
        item["spec"]["nodeName"] = name
    listing(script)(item)
    with pytest.raises(
        UsageError, match="no agent runs" if (place, name) == ("node", "") else "is no name"
    ):
        await agent_pods(Kubectl())


OLD, NEW = agent_pod("node"), agent_pod("node")
NEW["metadata"] |= {"name": "new", "creationTimestamp": "2026-02-01T00:00:00Z"}


def agent_is(pod: dict[str, Any], ready: Any, started: Any) -> dict[str, Any]:
    states = [{"name": "recorder", "ready": True, "started": True}]
    states += [{"name": "agent", "ready": ready, "started": started}]
    return {**pod, "status": {**pod["status"], "containerStatuses": states}}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (OLD, NEW, "new"),
        (agent_is(OLD, True, True), agent_is(NEW, True, True), "new"),
        (agent_is(OLD, True, True), agent_is(NEW, False, True), "nri-scope-node"),
        (agent_is(OLD, False, True), agent_is(NEW, False, False), "nri-scope-node"),
        (agent_is(OLD, False, True), agent_is(NEW, False, True), "new"),
        ({**agent_is(OLD, True, True), "status": {}}, agent_is(NEW, False, True), "new"),
        (agent_is(OLD, "x", [1]), NEW, "new"),
    ],
)
async def test_the_agent_that_answers_is_preferred(
    script: Script, old: dict[str, Any], new: dict[str, Any], found: str
) -> None:
    list_pods = listing(script)
    for items in ([old, new], [new, old]):
        list_pods(*items)
        assert (await agent_pods(Kubectl()))["node"].name == found


async def test_endless_output_is_refused(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OUTPUT_MAX", 1 << 20)
    script("exec cat /dev/zero")
    with pytest.raises(UsageError, match="it printed more than 1 MiB"):
        await Kubectl().get([".metadata.name"], "pods")


@pytest.mark.exhaustive
async def test_endless_errors_are_read_within_bounds(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GET_TIMEOUT_S", 1.0)
    script("exec cat /dev/zero >&2")
    with pytest.raises(UsageError, match="no answer within 1 s"):
        await Kubectl().get([".metadata.name"], "pods")


@pytest.mark.parametrize("text", ["sleep 1234567; true", "trap '' TERM; while :; do sleep 1; done"])
@pytest.mark.exhaustive
async def test_a_hanging_kubectl_ends_with_its_children(
    script: Script, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(module, "GET_TIMEOUT_S", 0.5)
    monkeypatch.setattr(module, "END_S", 0.5)
    file = script(text)
    with pytest.raises(UsageError, match=r"no answer within 0\.5 s"):
        await Kubectl().get([".metadata.name"], "pods")
    await asyncio.sleep(0.1)
    assert not processes(str(file).encode()) and not processes(b"1234567")


async def test_no_kubectl_outlives_a_loop_that_ends(script: Script) -> None:
    file = script("trap '' TERM; while :; do sleep 1; done")
    task = asyncio.create_task(Kubectl().get([".metadata.name"], "pods"))
    await until(lambda: bool(processes(str(file).encode())))
    task.cancel()
    await asyncio.sleep(0.05)
    # `asyncio.run` cancels all tasks again.
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not processes(str(file).encode())


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("blame", "shop/gone/app"),
        ("log", "--node", "a"),
        ("log", "--node", "a", "-f"),
        ("log", "-l", "app=web"),
        ("log", "-f", "-l", "app=web"),
        ("missing", "--plugin", "x"),
        ("collect", "-l", "app=web", "-o", "out"),
    ],
)
async def test_a_missing_permission_is_one_line(
    tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pods = [agent_pod("a"), agent_pod("b"), pod("shop", "web", "a", app="web")]
    ports = dict.fromkeys(("nri-scope-a", "nri-scope-b"), FORWARD_FORBIDDEN)
    environment = install(tmp_path / "bin", {"pods": pods, "ports": ports})
    done = await run(KUBECTL, *command, environment=environment)
    assert (done.status, done.output) == (2, "")
    assert 'User "bob" cannot create resource "pods/portforward"' in done.errors
    assert done.errors.count("\n") == 1, done.errors


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("echo 'error: unable to forward port' >&2; exit 1", "unable to forward port"),
        ("exec cat /dev/zero", "it printed no port"),
        ("exec yes", "no port within 0.5 s"),
        ("echo 'Forwarding from 127.0.0.1:99999 -> 9643'; exit 1", "it failed without a message"),
        ("exec sleep 12", "no port within 0.5 s"),
        ("exec cat /dev/zero >&2", "no port within 0.5 s"),
    ],
)
async def test_a_port_that_is_not_forwarded(
    script: Script, monkeypatch: pytest.MonkeyPatch, text: str, line: str
) -> None:
    monkeypatch.setattr(module, "FORWARD_TIMEOUT_S", 0.5)
    script(text)
    with pytest.raises(ForwardError, match=line):
        async with Kubectl().forwarded("nri-scope", "pod", 1):
            raise AssertionError
