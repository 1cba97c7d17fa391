# SPDX-License-Identifier: Apache-2.0
"""The Datasette plugin, called through its entry point and pluggy as Datasette does."""

from __future__ import annotations

import importlib
import json
import shutil
import sqlite3
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy
import pytest

from tests.share.formats.recordings import SAMPLES, exported

ROOT = Path(__file__).parents[3]
CREATED = "SELECT nri_json(id) FROM log WHERE event = 'CreateContainer'"


@dataclass
class _Database:
    path: str | None


class _Datasette:
    def __init__(self, **paths: Path | None) -> None:
        self._databases = {
            name: _Database(str(path) if path else None) for name, path in paths.items()
        }

    def get_database(self, name: str) -> _Database:
        return self._databases[name]


class _Hooks:
    @pluggy.HookspecMarker("datasette")
    def prepare_connection(self, conn: object, database: object, datasette: object) -> None:
        """Datasette's hook specification."""


def _entry_point() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "datasette" in project["optional-dependencies"]
    (module,) = project["entry-points"]["datasette"].values()
    assert isinstance(module, str)
    return module


@pytest.fixture
def prepare(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Hook of the plugin, loaded with a stub of Datasette."""
    datasette = ModuleType("datasette")
    datasette.hookimpl = pluggy.HookimplMarker("datasette")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasette", datasette)
    name = _entry_point()
    monkeypatch.delitem(sys.modules, name, raising=False)
    manager = pluggy.PluginManager("datasette")
    manager.add_hookspecs(_Hooks)
    manager.register(importlib.import_module(name))
    yield manager.hook.prepare_connection
    sys.modules.pop(name, None)


def _connection(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda text: str(text, "utf-8", "replace")
    return connection


def test_a_recording_has_the_functions_of_the_plugin(prepare: Any, tmp_path: Path) -> None:
    path = tmp_path / "node.nriscope.db"
    shutil.copy(SAMPLES[0], path)
    with closing(_connection(path)) as connection:
        prepare(conn=connection, database="node", datasette=_Datasette(node=path))
        messages = [json.loads(text) for (text,) in connection.execute(CREATED)]
        assert [message["container"]["name"] for message in messages][:2] == ["app", "sidecar"]
        (text,) = connection.execute(
            "SELECT nri_object(id) FROM object WHERE kind = 1 LIMIT 1"
        ).fetchone()
        assert json.loads(text)["namespace"]


def test_functions_work_in_any_thread(prepare: Any) -> None:
    answers: list[int] = []
    with closing(_connection(SAMPLES[0])) as connection:
        prepare(conn=connection, database="node", datasette=_Datasette(node=SAMPLES[0]))

        def ask() -> None:
            answers.append(len(connection.execute(CREATED).fetchall()))

        ask()
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert answers[0] == answers[1] > 0


def test_other_databases_have_no_functions(prepare: Any, tmp_path: Path) -> None:
    expanded = tmp_path / "expanded.db"
    expanded.write_bytes(exported(SAMPLES[0], "sqlite-expanded"))
    no_database = tmp_path / "text.db"
    no_database.write_text("no database, " * 100)
    datasette = _Datasette(expanded=expanded, no_database=no_database, memory=None)
    for name, path in (
        ("expanded", expanded), ("no_database", no_database), ("memory", ":memory:"),
        ("_internal", ":memory:"),
    ):  # fmt: skip
        with closing(_connection(path)) as connection:
            prepare(conn=connection, database=name, datasette=datasette)
            with pytest.raises(sqlite3.DatabaseError):
                connection.execute("SELECT nri_json(1)")


def test_messages_of_an_invalid_recording_are_null(prepare: Any, tmp_path: Path) -> None:
    path = tmp_path / "trap.db"
    shutil.copy(SAMPLES[0], path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON note BEGIN SELECT 1; END")
        connection.commit()
    with closing(_connection(path)) as connection:
        prepare(conn=connection, database="trap", datasette=_Datasette(trap=path))
        assert connection.execute("SELECT nri_json(1)").fetchone()[0] is None


def test_without_datasette_it_is_a_plain_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasette", None)
    name = _entry_point()
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    assert callable(module.prepare_connection)
    assert not hasattr(module.prepare_connection, "datasette_impl")
    sys.modules.pop(name, None)
