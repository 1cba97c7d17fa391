# SPDX-License-Identifier: Apache-2.0
"""Installing and removing the recording plugin of NRI 0.1, interrupted at every step."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.nri.v01 import parse_conf
from nri_scope.tap import v01_conf
from nri_scope.tap.v01_conf import install
from tests.tap.test_wrapper import file_state, is_killed_at

TEXT = '{"version": "0.1", "plugins": [{"type": "konfine"}]}'
REQUEST = b'{"version":"0.1","state":"create","id":"p1","sandboxID":"p1","spec":null}'


def uninstall(conf: Path, step: Callable[[str], None] = lambda step: None) -> tuple[Path, int]:
    return v01_conf.uninstall(conf, step, is_busy=lambda: False)


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v01_conf, "QUIET_S", 0.0)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "etc" / "conf.json"
    path.parent.mkdir()
    path.write_text(TEXT)
    path.chmod(0o640)
    os.utime(path, ns=(1_000_000_001, 2_000_000_003))
    return path


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "it's a spool"


def call(conf: Path, request: bytes = REQUEST) -> bytes:
    """Call the last plugin of the list, as the client does."""
    done = subprocess.run(
        [parse_conf(conf.read_bytes()).types[-1], "invoke"], input=request, capture_output=True
    )
    assert done.stderr == b""
    return done.stdout


def files(folder: Path) -> set[str]:
    return {str(one.relative_to(folder)) for one in folder.rglob("*")}


def test_the_former_file_is_restored(conf: Path, spool: Path, tmp_path: Path) -> None:
    before = file_state(conf)
    install(conf, spool)
    assert parse_conf(conf.read_bytes()).types == ("konfine", f"{spool}/nri-scope-v01")
    assert (conf.stat().st_mode, conf.stat().st_uid) == (before.mode, before.owner)
    assert uninstall(conf) == (spool, 0)
    assert file_state(conf) == before
    assert files(tmp_path) == {"etc", "etc/conf.json"}


def test_a_missing_file_is_missing_again(tmp_path: Path, spool: Path) -> None:
    conf = tmp_path / "etc" / "nri" / "conf.json"
    (tmp_path / "etc").mkdir()
    install(conf, spool)
    assert len(parse_conf(conf.read_bytes()).types) == 1
    uninstall(conf)
    assert files(tmp_path) == {"etc"}


def test_an_interrupted_installation_leaves_a_complete_file(conf: Path, spool: Path) -> None:
    before = file_state(conf)
    number = -1
    while True:
        number += 1
        if not is_killed_at(number, lambda step: install(conf, spool, step)):
            break
        types = parse_conf(conf.read_bytes()).types
        assert types[0] == "konfine"
        if len(types) == 1:
            install(conf, spool)
        assert len(parse_conf(conf.read_bytes()).types) == 2
        call(conf)
        (spool / "nri-scope").joinpath("lost").unlink(missing_ok=True)
        uninstall(conf)
        assert file_state(conf) == before
    assert number > 5


def test_an_interrupted_removal_leaves_a_complete_file(conf: Path, spool: Path) -> None:
    before = file_state(conf)
    number = -1
    while True:
        number += 1
        install(conf, spool)
        killed = is_killed_at(number, lambda step: uninstall(conf, step))
        assert len(parse_conf(conf.read_bytes()).types) in (1, 2)
        if not killed:
            break
        # The last steps leave nothing to complete.
        with contextlib.suppress(UsageError):
            uninstall(conf)
        assert file_state(conf) == before
        assert files(conf.parent) == {"conf.json"}
    assert number > 5


def test_each_request_is_spooled_as_received(conf: Path, spool: Path) -> None:
    install(conf, spool)
    for request in (REQUEST, b"", b"no JSON \\n % \xff\n\n"):
        assert call(conf, request) == b'{"plugin": "nri-scope", "version": "0.1", "error": ""}\n'
        (name,) = (spool / "nri-scope").glob("*.in")
        assert name.read_bytes() == request
        assert name.stat().st_mode & 0o777 == 0o600
        assert name.with_suffix(".v1").exists()
        for each in (spool / "nri-scope").iterdir():
            each.unlink()
    assert spool.stat().st_mode & 0o777 == (spool / "nri-scope").stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_spooled_is_answered_and_counted(conf: Path, spool: Path) -> None:
    install(conf, spool)
    folder = spool / "nri-scope"
    answer = call(conf, b"x" * (2 << 20))
    assert answer.endswith(b"}\n")
    assert files(folder) == {"lost", "lost.from"}
    began_ns = (folder / "lost.from").stat().st_mtime_ns
    for number in range(v01_conf.REQUESTS_MAX):
        (folder / f"{number}.in").touch()
    assert call(conf) == answer
    assert (folder / "lost").read_bytes() == b"xx"
    assert (folder / "lost.from").stat().st_mtime_ns == began_ns
    assert len(list(folder.glob("*.v1"))) == 0


def test_without_a_spool_the_plugin_answers(conf: Path, spool: Path) -> None:
    install(conf, spool)
    (spool / "nri-scope").rmdir()
    assert call(conf).endswith(b"}\n")


def test_waiting_requests_are_kept(conf: Path, spool: Path) -> None:
    install(conf, spool)
    call(conf)
    assert uninstall(conf) == (spool, 1)
    assert len(list((spool / "nri-scope").glob("*.v1"))) == 1


def test_a_file_that_was_changed_is_not_restored(conf: Path, spool: Path) -> None:
    install(conf, spool)
    conf.write_text(TEXT)
    with pytest.raises(UsageError, match="was changed since the recording plugin was installed"):
        uninstall(conf)
    with pytest.raises(UsageError, match="was changed"):
        install(conf, spool)
    assert conf.read_text() == TEXT
    conf.unlink()
    with pytest.raises(UsageError, match="was changed"):
        uninstall(conf)


def test_it_is_installed_once(conf: Path, spool: Path) -> None:
    install(conf, spool)
    with pytest.raises(UsageError, match="already has the recording plugin"):
        install(conf, spool)
    uninstall(conf)
    with pytest.raises(UsageError, match="has no recording plugin"):
        uninstall(conf)


def test_links_and_broken_files_are_refused(conf: Path, spool: Path, tmp_path: Path) -> None:
    link = conf.parent / "link.json"
    link.symlink_to(conf)
    folder = conf.parent / "folder.json"
    folder.mkdir()
    broken = conf.parent / "broken.json"
    broken.write_text("{")
    for path, words in ((link, "is a link"), (folder, "not a regular file"), (broken, "not JSON")):
        with pytest.raises(UsageError, match=words):
            install(path, spool)
    os.link(conf, tmp_path / "second")
    with pytest.raises(UsageError, match="has 2 names"):
        install(conf, spool)
    with pytest.raises(UsageError, match="no such file or directory"):
        install(tmp_path / "no" / "such" / "conf.json", spool)
    assert conf.read_text() == TEXT
    assert not spool.exists()
    assert files(conf.parent) == {"conf.json", "link.json", "folder.json", "broken.json"}


def test_a_list_that_has_the_recording_plugin_is_refused(conf: Path, spool: Path) -> None:
    install(conf, spool)
    listed = conf.read_text()
    uninstall(conf)
    conf.write_text(listed)
    with pytest.raises(UsageError, match=r"already lists .*/nri-scope-v01"):
        install(conf, spool)
    assert conf.read_text() == listed
    assert not spool.exists()


@pytest.mark.parametrize("how", ["written", "replaced", "removed"])
@pytest.mark.parametrize("has_conf", [False, True])
def test_a_list_that_another_program_changes_meanwhile_is_kept(
    conf: Path, spool: Path, tmp_path: Path, how: str, *, has_conf: bool
) -> None:
    if not has_conf:
        conf.unlink()
        if how == "removed":
            return
    new = TEXT.replace("konfine", "another")
    steps: list[str] = []
    uninterrupted = tmp_path / "other" / "conf.json"
    uninterrupted.parent.mkdir()
    if has_conf:
        uninterrupted.write_text(TEXT)
    install(uninterrupted, tmp_path / "other spool", steps.append)
    assert steps[-1] == "in place"
    for at in steps:

        def change(step: str, at: str = at) -> None:
            if step != at:
                return
            if how == "removed":
                conf.unlink()
            elif how == "written":
                conf.write_text(new)
            else:
                (conf.parent / "new").write_text(new)
                (conf.parent / "new").replace(conf)

        with pytest.raises(UsageError):
            install(conf, spool, change)
        left = set() if how == "removed" else {"conf.json"}
        assert files(conf.parent) == left, at
        assert not left or conf.read_text() == new
        assert not spool.exists()
        conf.unlink(missing_ok=True)
        if has_conf:
            conf.write_text(TEXT)


def test_a_refused_installation_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf, spool = tmp_path / "etc" / "conf.json", tmp_path / "lib" / "own" / "spool"
    with monkeypatch.context() as patch:
        patch.setattr(v01_conf, "SHELL", "/no/such/sh")
        with pytest.raises(UsageError, match="needs /no/such/sh"):
            install(conf, spool)
    assert files(tmp_path) == set()
    spool.mkdir(mode=0o700, parents=True)
    (spool / "other").touch()
    conf.parent.mkdir()
    conf.write_text(TEXT)

    def fail(step: str) -> None:
        if step == "draft":
            raise OSError(28, "No space left on device")

    with pytest.raises(UsageError, match="no space left"):
        install(conf, spool, fail)
    assert files(tmp_path) == {
        *("etc", "etc/conf.json", "lib", "lib/own", "lib/own/spool", "lib/own/spool/other")
    }


def test_the_program_stays_while_a_call_runs(
    conf: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(conf, spool)
    monkeypatch.setattr(v01_conf, "QUIET_S", 10.0)
    monkeypatch.setattr(v01_conf, "QUIET_WAIT_S", 0.05)
    with pytest.raises(UsageError, match=r"a running call of NRI 0\.1 may still need"):
        v01_conf.uninstall(conf, is_busy=lambda: True)
    assert conf.read_text() == TEXT
    assert (spool / "nri-scope-v01").exists()
    monkeypatch.setattr(v01_conf, "QUIET_S", 0.0)
    uninstall(conf)
    assert files(conf.parent) == {"conf.json"}
    assert not spool.exists()


def test_removal_waits_for_a_running_call(
    conf: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(conf, spool)
    program = spool / "nri-scope-v01"
    seen: list[bool] = []

    def is_busy() -> bool:
        seen.append(program.exists())
        return len(seen) < 3

    monkeypatch.setattr(v01_conf, "QUIET_S", 0.1)
    v01_conf.uninstall(conf, is_busy=is_busy)
    assert seen[:3] == [True, True, True]
    assert not program.exists()
