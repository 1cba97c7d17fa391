# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from nri_scope._gen.cri.runtime import v1
from nri_scope.cri import RuntimeVersion
from nri_scope.errors import DeadlineExceeded, RemoteProtocolError, RpcError
from tests.cri.driver import ContainerSpec, ContainerState, CriDriver, PodSpec, Resources
from tests.cri.fake_runtime import FakeRuntime, listening

POD = PodSpec("web", "shop", annotations={"note": "grüße"})
APP = ContainerSpec(
    "app",
    "localhost/busybox:1",
    command=["sleep", "9"],
    env={"DB_PASSWORD": "hunter2", "GREETING": "grüße"},
    resources=Resources(cpu_shares=512, memory_limit=1 << 20),
)


@pytest.fixture
def runtime() -> FakeRuntime:
    return FakeRuntime()


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "c.sock"


@pytest.fixture
async def cri(runtime: FakeRuntime, socket: Path) -> AsyncIterator[CriDriver]:
    async with listening(runtime, socket), await CriDriver.connect(socket) as client:
        yield client


async def test_connect_reads_the_runtimes_name_and_version(cri: CriDriver) -> None:
    assert cri.runtime == RuntimeVersion("containerd", "v1.7.24")


async def test_pods_are_created_with_host_networking(cri: CriDriver, runtime: FakeRuntime) -> None:
    assert await cri.run_pod(POD) == "pod-1"
    (request,) = runtime.requests
    assert isinstance(request, v1.RunPodSandboxRequest)
    assert request.config and request.config.linux and request.config.linux.security_context
    namespaces = request.config.linux.security_context.namespace_options
    assert namespaces and namespaces.network is v1.NamespaceMode.NODE
    assert request.config.annotations == {"note": "grüße"}
    assert request.config.metadata == v1.PodSandboxMetadata(
        name="web", namespace="shop", uid="shop-web-0"
    )


async def test_containers_are_created_with_pod_env_and_limits(
    cri: CriDriver, runtime: FakeRuntime
) -> None:
    assert await cri.create_container("pod-1", POD, APP) == "container-1"
    (request,) = runtime.requests
    assert isinstance(request, v1.CreateContainerRequest)
    assert request.sandbox_config == POD.to_message()
    config = request.config
    assert config and config.linux and config.linux.resources and config.image
    assert {each.key: each.value.decode() for each in config.envs} == APP.env
    assert config.linux.resources.memory_limit_in_bytes == 1 << 20
    # CRI-O rejects a container without it.
    assert config.image.user_specified_image == config.image.image


async def test_containers_are_listed_with_their_state(cri: CriDriver) -> None:
    known, strange = await cri.list_containers()
    assert (known.id, known.pod_id, known.name, known.image) == (
        "container-1",
        "pod-1",
        "app",
        "localhost/busybox:1",
    )
    assert known.state is ContainerState.RUNNING
    assert strange.state is ContainerState.UNKNOWN


async def test_verbose_status_has_the_parsed_runtime_spec(
    cri: CriDriver, runtime: FakeRuntime
) -> None:
    spec = {"ociVersion": "1.1.0", "process": {"args": ["sh"], "env": ["A=grüße"]}}
    runtime.status_answer = v1.ContainerStatusResponse(
        status=v1.ContainerStatus(id="container-1", exit_code=3),
        info={"info": json.dumps({"pid": 7, "runtimeSpec": spec})},
    )
    details = await cri.container_status("container-1")
    assert details.runtime_spec == spec
    assert details.info["pid"] == 7
    assert details.exit_code == 3


async def test_status_without_a_spec_has_none(cri: CriDriver, runtime: FakeRuntime) -> None:
    runtime.status_answer = v1.ContainerStatusResponse(status=v1.ContainerStatus(id="container-1"))
    details = await cri.container_status("container-1", verbose=False)
    assert details.runtime_spec is None
    assert details.info == {}


@pytest.mark.parametrize("text", ["{", "[1]", "nonsense", "[" * 100_000])
async def test_status_info_other_than_a_json_object_is_a_protocol_error(
    cri: CriDriver, runtime: FakeRuntime, text: str
) -> None:
    runtime.status_answer = v1.ContainerStatusResponse(
        status=v1.ContainerStatus(id="container-1"), info={"info": text}
    )
    with pytest.raises(RemoteProtocolError, match="ContainerStatus info"):
        await cri.container_status("container-1")


async def test_an_empty_status_reply_is_a_protocol_error(cri: CriDriver) -> None:
    with pytest.raises(RemoteProtocolError, match="without a status"):
        await cri.container_status("container-1")


async def test_an_error_status_has_the_runtimes_code_and_message(
    cri: CriDriver, runtime: FakeRuntime
) -> None:
    runtime.failure = GRPCError(Status.NOT_FOUND, "no such container")
    with pytest.raises(RpcError) as caught:
        await cri.stop_container("container-1")
    assert (caught.value.code, caught.value.message) == (5, "no such container")


async def test_a_late_reply_is_a_deadline_exceeded(cri: CriDriver, runtime: FakeRuntime) -> None:
    runtime.hang = True
    with pytest.raises(DeadlineExceeded, match="RunPodSandbox"):
        await cri.run_pod(POD, timeout=0.05)


async def test_the_grace_period_adds_to_the_deadline(cri: CriDriver, runtime: FakeRuntime) -> None:
    runtime.hang = True
    with pytest.raises(DeadlineExceeded) as caught:
        await cri.stop_container("container-1", grace=1, timeout=-0.95)
    assert caught.value.timeout == pytest.approx(0.05)
    assert runtime.requests == [v1.StopContainerRequest(container_id="container-1", timeout=1)]


async def test_a_late_reply_does_not_affect_the_next_call(
    cri: CriDriver, runtime: FakeRuntime
) -> None:
    runtime.hang = True
    with pytest.raises(DeadlineExceeded):
        await cri.run_pod(POD, timeout=0.05)
    runtime.hang = False
    assert await cri.run_pod(POD) == "pod-1"


INFO = '{"pid": 0,  "runtimeSpec": {}}'


@pytest.mark.parametrize(
    ("reason", "code", "message"),
    # containerd's form, then CRI-O's.
    [("StartError", 128, "no such file"), ("Error", -1, "runc: no such file")],
)
@pytest.mark.parametrize("info", [INFO, "{}", " {}", ""])
async def test_info_of_a_container_that_failed_to_start_has_the_error(
    cri: CriDriver, runtime: FakeRuntime, reason: str, code: int, message: str, info: str
) -> None:
    status = v1.ContainerStatus(
        state=v1.ContainerState.CONTAINER_EXITED, reason=reason, exit_code=code, message=message
    )
    runtime.status_answer = v1.ContainerStatusResponse(status=status, info={"info": info})
    info_fields = json.loads(await cri.container_info("container-1"))
    assert info_fields.pop("status") == {
        "state": "CONTAINER_EXITED",
        "exitCode": code,
        "reason": reason,
        "message": message,
    }
    assert info_fields == json.loads(info or "{}")


@pytest.mark.parametrize(
    ("status", "info"),
    [
        (v1.ContainerStatus(state=v1.ContainerState.CONTAINER_CREATED), INFO),
        (v1.ContainerStatus(state=v1.ContainerState.CONTAINER_EXITED, exit_code=3), INFO),
        (
            v1.ContainerStatus(state=v1.ContainerState.CONTAINER_EXITED, reason="StartError"),
            '{"status": "of a later version"}',
        ),
        (
            v1.ContainerStatus(state=v1.ContainerState.CONTAINER_EXITED, reason="StartError"),
            "no JSON",
        ),
    ],
)
async def test_other_info_is_returned_unchanged(
    cri: CriDriver, runtime: FakeRuntime, status: v1.ContainerStatus, info: str
) -> None:
    runtime.status_answer = v1.ContainerStatusResponse(status=status, info={"info": info})
    assert await cri.container_info("container-1") == info
