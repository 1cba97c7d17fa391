# SPDX-License-Identifier: Apache-2.0
"""Files of containers: only those of the container are read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nri_scope.cri import node_files
from nri_scope.cri.node_files import NodeFiles
from nri_scope.cri.status import info_with_files
from nri_scope.specs import Json, Spec, patched

ID, PID, SHIM = "c" * 64, 4242, 4000


class Node:
    """A folder with the files of a node."""

    def __init__(self, root: Path, cgroup: str, *, v2: bool = False) -> None:
        self.root = root
        self.files = NodeFiles(str(root / "proc"), str(root / "cgroup"))
        self.write(f"proc/{PID}/cgroup", cgroup)
        self.write(f"proc/{PID}/stat", f"{PID} (a ) b) S {SHIM} 1 1")
        (root / "cgroup").mkdir()
        if v2:
            self.write("cgroup/cgroup.controllers", "cpu memory")

    def write(self, path: str, text: str) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def shim(self, folder: Path) -> None:
        """Let the parent of the process run in a folder."""
        (self.root / f"proc/{SHIM}").mkdir(parents=True)
        (self.root / f"proc/{SHIM}/cwd").symlink_to(folder)

    def info(self, spec: Spec | None = None, pid: Json = PID) -> Spec:
        """Return the members that are added to an answer."""
        info: Spec = {"pid": pid, "runtimeSpec": {"hostname": "x"} if spec is None else spec}
        found: Spec = json.loads(info_with_files(json.dumps(info), ID, self.files))
        assert all(found.pop(name) == value for name, value in info.items())
        return found


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        (f"/kubepods/pod1/{ID}", f"kubepods/pod1/{ID}"),
        (f"/kubepods.slice/cri-containerd-{ID}.scope", f"kubepods.slice/cri-containerd-{ID}.scope"),
        # The container moved its processes into a folder of its own.
        (f"/pod1/{ID}/init.scope", f"pod1/{ID}"),
        ("/custom/place", "custom/place"),
    ],
)
def test_limits_are_those_of_the_containers_folder(tmp_path: Path, path: str, folder: str) -> None:
    spec: Spec = {"linux": {"cgroupsPath": "/custom/place"}}
    one = Node(tmp_path / "1", f"3:cpu,cpuacct:{path}\n2:name=systemd:/x\n0::{path}\n")
    one.write(f"cgroup/cpu/{folder}/cpu.shares", "333\n")
    one.write(f"cgroup/cpu/{folder}/cpu.stat", "1\n")
    two = Node(tmp_path / "2", f"0::{path}\n", v2=True)
    two.write(f"cgroup/{folder}/pids.max", "max\n")
    assert one.info(spec)["cgroup"] == {"/linux/resources/cpu/shares": 333}
    assert two.info(spec)["cgroup"] == {"/linux/resources/pids/limit": -1}


@pytest.mark.parametrize(
    "path",
    [
        f"/../../{ID}",
        f"/{ID}/../other",
        "/another/container",
        f"/x-{ID}",
        f"/{ID}x",
        "",
    ],
)
def test_other_folders_are_not_read(tmp_path: Path, path: str) -> None:
    node = Node(tmp_path, f"0::{path}\n", v2=True)
    for folder in (ID, "other", "another/container", f"x-{ID}", f"{ID}x"):
        node.write(f"cgroup/{folder}/pids.max", "5")
    assert node.info() == {}
    assert node.info({"linux": {"cgroupsPath": 7}}) == node.info({"linux": 7}) == {}


def test_a_link_out_of_the_cgroups_is_not_followed(tmp_path: Path) -> None:
    node = Node(tmp_path, f"0::/{ID}\n", v2=True)
    node.write("elsewhere/pids.max", "5")
    (tmp_path / "cgroup" / ID).symlink_to(tmp_path / "elsewhere")
    assert node.info() == {}
    (tmp_path / "cgroup" / ID).unlink()
    (tmp_path / "cgroup" / ID).mkdir()
    (tmp_path / "cgroup" / ID / "pids.max").symlink_to(tmp_path / "elsewhere/pids.max")
    assert node.info() == {}


@pytest.mark.parametrize("pid", [0, -1, "1", None, 1.5, 4, True])
def test_an_unknown_process_has_no_files(tmp_path: Path, pid: Json) -> None:
    assert Node(tmp_path, f"0::/{ID}\n", v2=True).info(pid=pid) == {}


def test_config_json_is_beside_the_folder_of_the_shim(tmp_path: Path) -> None:
    node = Node(tmp_path, f"0::/{ID}\n", v2=True)
    spec: Spec = {"hostname": "y", "process": {"args": ["a"]}}
    node.write(f"state/{ID}/config.json", json.dumps(spec))
    (tmp_path / "state/pod").mkdir()
    node.shim(tmp_path / "state/pod")
    (patch,) = node.info().values()
    assert isinstance(patch, dict)
    assert patched({"hostname": "x"}, patch) == spec


def test_config_json_is_in_the_folder_of_conmon(tmp_path: Path) -> None:
    node = Node(tmp_path, f"0::/{ID}\n", v2=True)
    node.write(f"state/{ID}/userdata/config.json", '{"hostname": "x"}')
    node.shim(tmp_path / f"state/{ID}/userdata")
    assert node.info() == {"bundleSpec": {}}


@pytest.mark.parametrize("content", ["[]", "{", '{"a": "' + "x" * 100 + '"}', "[" * 100_000])
def test_an_unusable_config_json_is_left_out(
    tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_files, "BUNDLE_MAX", 100 if "x" in content else 1 << 20)
    node = Node(tmp_path, f"0::/{ID}\n", v2=True)
    node.write(f"state/{ID}/config.json", content)
    node.shim(tmp_path / f"state/{ID}")
    assert node.info() == {}


def test_a_config_json_of_another_kind_or_owner_is_not_read(tmp_path: Path) -> None:
    node = Node(tmp_path, f"0::/{ID}\n", v2=True)
    place = node.write(f"state/{ID}/config.json", "{}")
    node.shim(tmp_path / f"state/{ID}")
    assert node.info() == {"bundleSpec": {"hostname": None}}
    other = place.rename(place.with_name("other"))
    place.symlink_to(other)
    assert node.info() == {}
    place.unlink()
    os.mkfifo(place)
    assert node.info() == {}
    place.unlink()
    if os.geteuid() == 0:
        place.write_text("{}")
        os.chown(place, 1234, 1234)
        assert node.info() == {}


def test_only_ids_lead_to_paths(tmp_path: Path) -> None:
    files = NodeFiles(str(tmp_path), str(tmp_path))
    assert all(files.config(0, name) is None for name in ("", "..", "a/b", "../x", "a\0"))


@pytest.mark.parametrize("text", ["", "x", "[]", "{", '{"pid": 1, "cgroup": 1}'])
def test_other_answers_stay_as_they_are(tmp_path: Path, text: str) -> None:
    assert info_with_files(text, ID, NodeFiles(str(tmp_path), str(tmp_path))) == text
