# SPDX-License-Identifier: Apache-2.0
"""Statements about generated replies, held against what a real Docker Engine did with them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping

import pytest

from nri_scope.cli.main import run
from nri_scope.nri.events import CREATE, EventKind
from nri_scope.nri.request_subject import decode_request
from nri_scope.plugin import Identity, serve, unix_socket
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import PROFILES, EmulatedRuntime

from .engine import Engine
from .experiment import Creation, Experiment, Replying, perform
from .replies import INDICES

pytestmark = pytest.mark.runtime


@pytest.fixture(scope="module", params=[1, 2])
def experiment(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Experiment:
    return asyncio.run(perform(engine, tmp_path_factory.mktemp("x"), request.param))


def blame(path: object, name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert run(["blame", str(path), name, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def value_in(config: Mapping[str, object], path: str) -> object:
    """Return what config.json has at a path, with members of lists by their usual keys."""
    value: object = config
    keys = [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]
    for above, key in zip(["", *keys], keys, strict=False):
        if above == "env" and isinstance(value, list):
            value = dict(entry.split("=", 1) for entry in value).get(key)
        elif isinstance(value, list):
            names = ("destination", "path", "type", "pageSize")
            members = [each for each in value if key in [each.get(name) for name in names]]
            value = members[0] if members else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def is_there(creation: Creation, path: str, wanted: object) -> bool:
    """Return whether a requested variable or mount is what the container has, by both sources."""
    there, inspected = value_in(creation.config, path), creation.inspected
    name = path.split("/")[-1].replace("~1", "/")
    if not path.startswith("/mounts/"):
        variables = value_in(inspected, "/Config/Env")
        assert isinstance(variables, list)
        return there == wanted and f"{name}={wanted}" in variables
    mounts = inspected["Mounts"]
    assert isinstance(mounts, list)
    name = path.split("/")[2].replace("~1", "/")
    (mount,) = [mount for mount in mounts if mount["Destination"] == name] or [{}]
    there = value_in(creation.config, "/".join(path.split("/")[:3]))
    if not isinstance(there, dict):
        return False
    # A volume is a folder that is mounted.
    is_tmpfs, is_read_only = there["type"] == "tmpfs", bool({"ro", "rro"} & {*there["options"]})
    assert is_tmpfs == (mount["Type"] == "tmpfs")
    assert is_read_only == (not mount["RW"])
    parts = wanted if isinstance(wanted, dict) else {path.split("/")[3]: wanted}
    return all(
        {
            "destination": name == value,
            "type": mount["Type"] == value,
            "source": mount["Type"] != "bind" or there["source"] == mount["Source"] == value,
            "options": is_read_only == bool(value),
        }[part]
        for part, value in parts.items()
    )


def test_the_experiment_has_all_kinds_of_results(experiment: Experiment) -> None:
    results = Counter(creation.error.split(":")[0] for creation in experiment.creations.values())
    assert results[""] > 40
    for words in (
        "unsupported container adjustments", "applying mount adjustments",
        "container update is not supported", "applying environment variable adjustments",
    ):  # fmt: skip
        assert any(error.startswith(words) for error in results), (words, results)
    assert not [each.start_error for each in experiment.creations.values() if each.start_error]


@pytest.mark.parametrize("recorder", ["tapped", "probed", "validated"])
def test_failures_are_stated_as_they_happened(
    experiment: Experiment, recorder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, creation in experiment.creations.items():
        found = blame(getattr(experiment, recorder), name, capsys)["container"]
        assert isinstance(found, dict)
        failure = found["failure"]
        if not creation.error:
            assert not failure, (name, failure)
        elif not creation.error_of_the_node and recorder == "tapped":
            assert failure, (name, creation.error)
        # Docker's own words, but for its errors about mounts.
        reason = failure.partition(": ")[2]
        if recorder == "tapped" and " mount " not in creation.error and reason:
            words = reason.split(": ")[-1].split(",")
            assert all(word in creation.error for word in words), (name, failure, creation.error)


@pytest.mark.parametrize("recorder", ["tapped", "probed", "validated"])
def test_outcomes_are_stated_as_they_happened(
    experiment: Experiment, recorder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds: Counter[str] = Counter()
    for name, creation in experiment.creations.items():
        requests = blame(getattr(experiment, recorder), name, capsys)["requests"]
        assert isinstance(requests, list)
        for request in requests:
            path, wanted, outcome = request["path"], request["after"], request["outcome"]
            kind = outcome["kind"]
            about = (name, creation.error, request)
            kinds[f"{kind} {bool(creation.error)}"] += 1
            # No event of Docker Engine shows the result.
            assert kind not in ("seen", "in effect"), about
            if creation.error or request["container"] != name:
                continue
            assert kind != "refused", about
            if kind == "dropped":
                unchanged = value_in(experiment.baseline.config, path)
                assert value_in(creation.config, path) == unchanged, about
            elif kind == "requested" and request["op"] in ("add", "replace"):
                # It may only say that it is not known; but whatever is dropped has to be known.
                assert is_there(creation, path, wanted), about
    assert kinds["requested False"] > 30, kinds
    assert kinds["refused True"] > 30, kinds
    if recorder == "tapped":
        assert kinds["dropped False"] > 30, kinds


def test_every_change_of_a_container_was_stated(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, creation in experiment.creations.items():
        if creation.error:
            continue
        requests = blame(experiment.tapped, name, capsys)["requests"]
        assert isinstance(requests, list)
        paths = [each["path"] for each in requests if each["outcome"]["kind"] == "requested"]
        # A part of a mount may have been replaced.
        members = {"/".join(path.split("/")[:3]) if "mounts" in path else path for path in paths}
        assert changed(experiment.baseline, creation) <= members, name


def changed(before: Creation, after: Creation) -> set[str]:
    """Return the paths at which two containers differ, without those of each container's own."""
    paths = set()
    for creation in (before, after):
        config = creation.config
        environment = value_in(config, "/process/env")
        assert isinstance(environment, list)
        paths |= {f"/process/env/{entry.split('=', 1)[0]}" for entry in environment}
        mounts = config["mounts"]
        assert isinstance(mounts, list)
        paths |= {"/mounts/" + mount["destination"].replace("/", "~1") for mount in mounts}
        paths |= {"/annotations", "/process/args", "/process/rlimits", "/hooks"}
        paths |= {f"/linux/{key}" for key in config["linux"]}  # type: ignore[attr-defined]
    own = {"/process/env/HOSTNAME", "/linux/cgroupsPath"}
    own |= {f"/mounts/~1etc~1{file}" for file in ("hostname", "hosts", "resolv.conf")}
    return {
        path for path in paths - own
        if value_in(before.config, path) != value_in(after.config, path)
    }  # fmt: skip


def test_the_emulated_engine_answers_as_the_real_one(experiment: Experiment) -> None:
    asyncio.run(_emulate(experiment))


async def _emulate(experiment: Experiment) -> None:
    requests = {}
    with Recording.open(experiment.probed) as recording:
        for event, payload, _ in recording.exchanges():
            if event.event == CREATE and event.plugin.startswith("00"):
                requests[event.container] = decode_request(event.method, payload).message
    path = experiment.tapped.with_name("emulated.sock")
    async with EmulatedRuntime(PROFILES["docker"]) as runtime:
        await runtime.listen(path)
        tasks = [
            asyncio.create_task(
                serve(
                    Replying(index, experiment.creations),
                    Identity(index, "replying"),
                    unix_socket(path),
                )
            )
            for index in INDICES
        ]
        await runtime.wait_for(lambda: len(runtime.plugins) == len(INDICES))
        for name, creation in experiment.creations.items():
            request = requests[name]
            assert request is not None
            result = await runtime.operate(EventKind.CreateContainer, request)
            if creation.error_of_the_node:
                continue
            about = name, creation.error, result.failure
            assert bool(result.failure) == bool(creation.error), about
            if "invalid mount config" not in creation.error:
                assert result.failure in creation.error, about
        for task in tasks:
            task.cancel()
