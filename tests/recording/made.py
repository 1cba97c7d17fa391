# SPDX-License-Identifier: Apache-2.0
"""Events, gaps and sessions for tests of code that only reads them."""

from __future__ import annotations

from nri_scope.events import Event, Gap, Problem, Session, Status

SECOND = 1_000_000_000
START = 1_763_673_480 * SECOND
"""2025-11-20 21:18:00 UTC."""


def at(seconds: float) -> int:
    return START + round(seconds * SECOND)


def an_event(
    number: int,
    seconds: float = 0.0,
    *,
    session: int = 1,
    plugin: str = "00-nri-scope",
    event: str = "CreateContainer",
    method: str | None = None,
    subject: str = "shop/web/app",
    pod_id: str = "8f14e45fceea167a5a36dedd4bea2543",
    container_id: str = "c9f0f895fb98ab9159f51fd0297e236d",
    took_ns: int = 91_234,
    timeout_ns: int = 1_999_969_264,
    size: int = 4198,
    status: str = "ok",
    status_code: int = 0,
    status_message: str = "",
    mark: str = "",
    problem: str = "",
    changed: tuple[str, ...] = (),
    owners: tuple[str, ...] = (),
    outcomes: tuple[str, ...] = (),
    targets: tuple[str, ...] = (),
) -> Event:
    namespace, pod, container = [*subject.split("/"), "", "", ""][:3]
    return Event(
        id=number,
        session=session,
        seq=number,
        at_ns=at(seconds),
        mono_ns=round(seconds * SECOND),
        plugin=plugin,
        runtime="containerd",
        method=method or event,
        event=event,
        namespace=namespace,
        pod=pod,
        container=container,
        pod_id=pod_id if pod else "",
        container_id=container_id if container else "",
        took_ns=took_ns,
        timeout_ns=timeout_ns,
        size=size,
        status=Status(status),
        status_code=status_code,
        status_message=status_message,
        mark=mark,
        problem=Problem(problem) if problem else "",
        changed=changed,
        owners=owners,
        outcomes=outcomes,
        targets=targets,
    )


def a_session(
    number: int,
    started: float = 0.0,
    ended: float | None = None,
    *,
    plugin: str = "00-nri-scope",
    runtime_name: str = "containerd",
    nri_version: str = "0.6.1",
    end_reason: str = "the runtime closed the connection",
) -> Session:
    index, _, name = plugin.partition("-")
    return Session(
        id=number,
        role="logger",
        plugin_name=name,
        plugin_index=index,
        runtime_name=runtime_name,
        runtime_version="1.7.24",
        nri_version=nri_version,
        nri_version_inferred=True,
        mask=0x07FF,
        registration_timeout_ms=5000,
        request_timeout_ms=2000,
        started_ns=at(started),
        ended_ns=None if ended is None else at(ended),
        end_reason="" if ended is None else end_reason,
    )


def a_gap(
    number: int, from_s: float, to_s: float, *, session: int | None = 1, lost: int | None = 3
) -> Gap:
    return Gap(number, session, at(from_s), at(to_s), "the disk is full", lost)
