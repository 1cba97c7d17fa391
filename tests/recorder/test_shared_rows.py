# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from nri_scope._gen.nri.api_pb2 import Container, PodSandbox
from nri_scope.recorder import shared_rows as module
from nri_scope.recorder.shared_rows import SubjectTables
from nri_scope.recording.file.schema import statements


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in statements():
        connection.execute(statement)
    yield connection
    connection.close()


def _pods(connection: sqlite3.Connection) -> list[tuple[str, str, str, str]]:
    return connection.execute("SELECT id, namespace, name, uid FROM pod ORDER BY key").fetchall()


def _containers(connection: sqlite3.Connection) -> list[tuple[str, str, int | None]]:
    return connection.execute("SELECT id, name, pod FROM container ORDER BY key").fetchall()


WEB = PodSandbox(id="p1", namespace="shop", name="web", uid="u1")


def test_a_pod_has_one_key(connection: sqlite3.Connection) -> None:
    subjects = SubjectTables(connection)
    one, again = subjects.pod(WEB), subjects.pod(WEB)
    assert one is not None
    assert one is again
    subjects.flush()
    subjects.flush()
    assert _pods(connection) == [("p1", "shop", "web", "u1")]


def test_a_later_recorder_reuses_keys(connection: sqlite3.Connection) -> None:
    first = SubjectTables(connection)
    pod = first.pod(WEB)
    container = first.container(Container(id="c1", name="app"), pod)
    first.flush()
    later = SubjectTables(connection)
    pod_again = later.pod(WEB)
    assert pod is not None
    assert container is not None
    assert pod_again is not None
    assert pod_again.key == pod.key
    found = later.container(Container(id="c1", name="app"), pod_again)
    assert found is not None
    assert found.key == container.key
    new = later.pod(PodSandbox(id="p2", name="other"))
    assert new is not None
    assert new.key == pod.key + 1


@pytest.mark.parametrize("flush_between", [True, False])
def test_a_subject_known_by_id_only_is_completed(
    connection: sqlite3.Connection, flush_between: bool
) -> None:
    subjects = SubjectTables(connection)
    only_id = subjects.pod(PodSandbox(id="p1"))
    container = subjects.container(Container(id="c1"), None)
    if flush_between:
        subjects.flush()
    assert subjects.pod(WEB) is only_id
    assert subjects.container(Container(id="c1", name="app"), only_id) is container
    assert subjects.pod(PodSandbox(id="p1")) is only_id
    subjects.flush()
    assert _pods(connection) == [("p1", "shop", "web", "u1")]
    assert _containers(connection) == [("c1", "app", 1)]


def test_a_container_is_linked_to_its_pod_by_the_pod_s_id(
    connection: sqlite3.Connection,
) -> None:
    subjects = SubjectTables(connection)
    subjects.container(Container(id="c1", name="app", pod_sandbox_id="p1"), None)
    subjects.pod(WEB)
    subjects.flush()
    assert _pods(connection) == [("p1", "shop", "web", "u1")]
    assert _containers(connection) == [("c1", "app", 1)]


def test_different_pods_under_one_id_have_different_keys(connection: sqlite3.Connection) -> None:
    subjects = SubjectTables(connection)
    for _ in range(3):
        subjects.pod(WEB)
        subjects.pod(PodSandbox(id="p1", namespace="shop", name="other", uid="u1"))
    subjects.flush()
    assert len(_pods(connection)) == 2


def test_a_subject_without_id_and_name_has_no_key(connection: sqlite3.Connection) -> None:
    subjects = SubjectTables(connection)
    assert subjects.pod(PodSandbox()) is None
    assert subjects.container(Container(), None) is None


def test_evicted_subjects_are_looked_up_again(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CACHED", 4)
    subjects = SubjectTables(connection)
    keys = {}
    for number in range(40):
        row = subjects.pod(PodSandbox(id=f"p{number}", name="web"))
        assert row is not None
        keys[number] = row.key
        subjects.flush()
    for number in range(40):
        row = subjects.pod(PodSandbox(id=f"p{number}", name="web"))
        assert row is not None
        assert row.key == keys[number]


def test_invalidate_clears_cached_subjects(
    connection: sqlite3.Connection,
) -> None:
    subjects = SubjectTables(connection)
    subjects.pod(WEB)
    subjects.flush()
    connection.execute("DELETE FROM pod")
    subjects.invalidate()
    row = subjects.pod(WEB)
    subjects.flush()
    assert row is not None
    assert row.key == 2
    assert _pods(connection) == [("p1", "shop", "web", "u1")]


# -- iSulad: the id follows after CreateContainer, with a longer name ------------------------------

LONG = "k8s_app_web_shop_u1_0"


def test_a_creation_without_id_gets_the_id_and_keeps_the_name(
    connection: sqlite3.Connection,
) -> None:
    subjects = SubjectTables(connection)
    pod = subjects.pod(
        PodSandbox(id="p1", namespace="shop", name="k8s_POD_web_shop_u1_0", uid="u1")
    )
    created = [subjects.container(Container(name="app"), pod, (session, 7)) for session in (1, 2)]
    subjects.flush()
    later = subjects.container(Container(id="c1", name=LONG), pod)
    assert created == [later, later]
    assert subjects.container(Container(id="c1", name=LONG), pod) is later
    subjects.flush()
    assert _pods(connection) == [("p1", "shop", "web", "u1")]
    assert _containers(connection) == [("c1", "app", 1)]


def test_a_failed_creation_without_id_is_not_joined_with_the_next_attempt(
    connection: sqlite3.Connection,
) -> None:
    subjects = SubjectTables(connection)
    pod = subjects.pod(WEB)
    subjects.container(Container(name="app"), pod, (1, 7))
    subjects.container(Container(name="app"), pod, (1, 8))
    subjects.container(Container(id="c1", name=LONG), pod)
    subjects.container(Container(id="c2", name=LONG), pod)
    subjects.flush()
    assert _containers(connection) == [
        ("no-id-7", "app", 1), ("c1", "app", 1), ("c2", "app", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("session", [1, None])
def test_a_creation_before_a_gap_is_not_joined(
    connection: sqlite3.Connection, session: int | None
) -> None:
    subjects = SubjectTables(connection)
    pod = subjects.pod(WEB)
    subjects.container(Container(name="app"), pod, (1, 7))
    subjects.forget_creations(session)
    subjects.container(Container(id="c1", name=LONG), pod)
    subjects.flush()
    assert _containers(connection) == [("no-id-7", "app", 1), ("c1", "app", 1)]


def test_a_creation_stays_joined_while_old_rows_are_removed(
    connection: sqlite3.Connection,
) -> None:
    subjects = SubjectTables(connection)
    pod = subjects.pod(WEB)
    for name in ("app", "gone", "new"):
        subjects.container(Container(name=name), pod, (1, 7))
        if name == "gone":
            subjects.flush()
            connection.execute("DELETE FROM container WHERE name = 'gone'")
    subjects.invalidate()
    for name in ("app", "gone", "new"):
        subjects.container(Container(id=f"id-{name}", name=name), pod)
    subjects.flush()
    assert [(container[0], container[1]) for container in _containers(connection)] == [
        ("id-app", "app"), ("id-new", "new"), ("id-gone", "gone"),
    ]  # fmt: skip


def test_pending_creations_are_limited(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WITHOUT_ID", 2)
    subjects = SubjectTables(connection)
    pod = subjects.pod(WEB)
    for name in "abc":
        subjects.container(Container(name=name), pod, (1, 7))
    for name in "abc":
        subjects.container(Container(id=f"id-{name}", name=name), pod)
    subjects.flush()
    assert [one[0] for one in _containers(connection)] == ["no-id-7", "id-b", "id-c", "id-a"]
