# SPDX-License-Identifier: Apache-2.0
"""A ``kubectl`` for tests: pods from a file, and real forwarding of ports of this machine.

The file named by FAKE_CLUSTER has ``pods`` (Pod objects), ``ports`` (by name of an agent's pod; a
text is why it is not forwarded), ``workloads`` (objects with ``kind``), ``events`` (Event objects;
a text is why they cannot be listed), ``user`` and ``namespace`` (of the kubeconfig) and
``forward_s``: seconds after which a forwarded port ends, as real ones do; null: never.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time

# Many of these run at the same time: without installed packages, pathlib and typing, each starts in
# half the time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

INSTALLED = f"""#!{sys.executable} -IS
import sys
sys.path.insert(0, {__file__.removesuffix("tests/cluster/fake_kubectl.py")!r})
from tests.cluster.fake_kubectl import main
main(sys.argv[1:])
"""


def install(folder: Path, cluster: dict[str, Any]) -> dict[str, str]:
    """Write ``kubectl`` and its cluster to a folder; return the environment that uses it."""
    folder.mkdir(exist_ok=True)
    program = folder / "kubectl"
    program.write_text(INSTALLED)
    program.chmod(0o755)
    (folder / "cluster.json").write_text(json.dumps(cluster))
    path = os.pathsep.join((str(folder), os.environ.get("PATH", os.defpath)))
    return {"PATH": path, "FAKE_CLUSTER": str(folder / "cluster.json")}


def change(cluster: dict[str, str], **more: Any) -> None:
    """Change what a fake cluster contains."""
    with open(cluster["FAKE_CLUSTER"], "r+", encoding="utf-8") as file:  # noqa: PTH123
        changed = json.load(file) | more
        file.seek(0)
        file.truncate()
        json.dump(changed, file)


def pod(namespace: str, name: str, node: str, **labels: str) -> dict[str, Any]:
    """Return a running Pod object."""
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeName": node},
        "status": {"phase": "Running"},
    }


def agent_pod(node: str, *arguments: str) -> dict[str, Any]:
    """Return the Pod object of a node's agent with these arguments."""
    label = {"app.kubernetes.io/name": "nri-scope"}
    one = pod("nri-scope", f"nri-scope-{node}", node, **label)
    one["spec"]["containers"] = [{"name": "agent", "args": ["agent", *arguments]}]
    return one


def main(arguments: list[str]) -> None:
    """Run one command line."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    cluster = _cluster()
    named = dict(one[2:].split("=", 1) for one in arguments if one.startswith("--") and "=" in one)
    if "--watch" in arguments:
        _watch(arguments, named)
    elif "config" in arguments:
        context = {"context": {"namespace": cluster.get("namespace")}}
        config = {"users": [{"user": cluster.get("user", {})}], "contexts": [context]}
        print(printed([config], arguments[arguments.index("-o") + 1]), end="")
    elif "get" in arguments:
        if "events" in arguments:
            found = _events(named, cluster.get("events", ()))
        else:
            found = _get(arguments, named, cluster["pods"], cluster.get("workloads", ()))
        print(printed(found, arguments[arguments.index("-o") + 1]), end="")
    else:
        name = next(one.removeprefix("pod/") for one in arguments if one.startswith("pod/"))
        _forward(cluster["ports"].get(name), cluster.get("forward_s"))


def _cluster() -> dict[str, Any]:
    with open(os.environ["FAKE_CLUSTER"], encoding="utf-8") as file:  # noqa: PTH123 - without pathlib
        cluster: dict[str, Any] = json.load(file)
        return cluster


def _watch(arguments: list[str], named: dict[str, str]) -> None:
    printed_before = ""
    while True:
        found = _get(arguments, named, _cluster()["pods"])
        text = printed(found, arguments[arguments.index("-o") + 1])
        if text != printed_before:
            print(text, end="", flush=True)
            printed_before = text
        time.sleep(0.1)


def printed(pods: list[dict[str, Any]], template: str) -> str:
    """Return what a template of JSONPath prints, as far as the commands use it."""
    text = template.removeprefix("jsonpath=").removeprefix("{range .items[*]}")
    parts = re.findall(r'\{"(.*?)"\}|\{(\..*?|@)\}', text.removesuffix("{end}"))
    return "".join(
        _field(one, path) if path else {"\\t": "\t", "\\n": "\n"}[mark]
        for one in pods
        for mark, path in parts
    )


_STEP = r'\.(\w+)|\[\?\(@\.(\w+)=="(\w+)"\)\]|\[(\d)\]'


def _field(value: Any, path: str) -> str:
    for key, by, name, place in re.findall(_STEP, path):
        if place:
            value = value[int(place)]
        elif name:
            value = next((one for one in value or () if one[by] == name), None)
        else:
            value = (value or {}).get(key)
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _events(named: dict[str, str], events: Sequence[dict[str, Any]] | str) -> list[dict[str, Any]]:
    if isinstance(events, str):
        sys.exit(events)
    wanted = [named["namespace"], named["field-selector"].rpartition("=")[2]]
    return [one for one in events if [one["involvedObject"][key] for key in KEYS] == wanted]


KEYS = ("namespace", "name")


def _get(
    arguments: list[str],
    named: dict[str, str],
    pods: list[dict[str, Any]],
    workloads: Sequence[dict[str, Any]] = (),
) -> list[dict[str, Any]]:
    if "nodes" in arguments:
        return [{"metadata": {"name": name}} for name in {one["spec"]["nodeName"] for one in pods}]
    namespace = named.get("namespace", "")
    pods = [one for one in pods if namespace in ("", one["metadata"]["namespace"])]
    kind, name = arguments[arguments.index("get") + 1 :][:2]
    if kind != "pods":
        objects = pods if kind == "pod" else [one for one in workloads if one["kind"] == kind]
        found = [one for one in objects if one["metadata"]["name"] == name]
        found = [one for one in found if one["metadata"]["namespace"] == namespace]
        if found:
            return found
        sys.exit(f'Error from server (NotFound): {kind}s "{name}" not found')
    return [one for one in pods if matches(named["selector"], one["metadata"]["labels"])]


def matches(selector: str, labels: dict[str, str]) -> bool:
    """Return whether a selector, as written for kubectl, matches labels."""
    for term in re.split(r",(?![^(]*\))", selector):
        parts = re.fullmatch(r"!?([^ =]+)(?: *(=|in|notin) *\(?(.*?)\)?)?", term)
        assert parts is not None
        key, operator, some = parts.groups()
        has = key in labels
        if operator:
            is_met = (has and labels[key] in some.split(",")) != (operator == "notin")
        else:
            is_met = has != term.startswith("!")
        if not is_met:
            return False
    return True


def _forward(port: int | str | None, seconds: float | None) -> None:
    if not isinstance(port, int):
        sys.exit(port or "error: unable to forward port because pod is not running")
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"Forwarding from 127.0.0.1:{listening.getsockname()[1]} -> 9643", flush=True)
    if seconds is not None:
        threading.Timer(seconds, os._exit, (1,)).start()
    while True:
        client, _ = listening.accept()
        try:
            server = socket.create_connection(("127.0.0.1", port))
        except OSError:
            client.close()
            continue
        for one, other in ((client, server), (server, client)):
            threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(1 << 16):
            other.sendall(data)
    except OSError:
        pass
    finally:
        for each in (one, other):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
