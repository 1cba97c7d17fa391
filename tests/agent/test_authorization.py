# SPDX-License-Identifier: Apache-2.0
"""An agent with --authorize asks the API server about each caller, and refuses in doubt."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.agent import authorization
from nri_scope.agent.authorization import READ_REDACTED, ApiServer, Authorizer
from nri_scope.agent.call_limits import limit_calls
from nri_scope.agent.node_recordings import NodeRecordings
from nri_scope.agent.recorder_status import RecorderStatus
from nri_scope.agent.service import AgentService
from nri_scope.recording.node_files import AUDIENCE
from tests.agent.certificates import Certificates
from tests.cli.command import NRI_SCOPE
from tests.cli.running import PATIENCE
from tests.cluster.fake_kubectl import agent_pod, install, pod
from tests.cluster.plugin_command import KUBECTL, RECORDING, run
from tests.sample_names import CHECKOUT, CHECKOUT_POD, NAMESPACE, NODE, NODE_NAMESPACE, NODE_POD

SHOP = "token-of-shop"
ADMIN = "token-of-admin"
AGENTS_ONLY = "token-for-agents"
USERS = {SHOP: "shop-reader", ADMIN: "admin", AGENTS_ONLY: "shop-account"}
MAY = {
    "shop-reader": {NAMESPACE},
    "shop-account": {NAMESPACE},
    "admin": {"", NAMESPACE, NODE_NAMESPACE},
}


class Api(ThreadingHTTPServer):
    """Reviews of an API server, by the tables above."""

    daemon_threads = True

    def __init__(self, certificates: Certificates) -> None:
        super().__init__(("127.0.0.1", 0), _Reviews)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        folder = certificates.folder
        context.load_cert_chain(folder / "server.crt", folder / "server.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.reviews: list[dict[str, Any]] = []
        self.tokens: set[str | None] = set()
        self.status = 201
        self.may = {user: set(names) for user, names in MAY.items()}
        self.knows_audiences = True
        self.answers = threading.Event()
        self.answers.set()

    def review(self, document: dict[str, Any]) -> dict[str, Any]:
        spec = document["spec"]
        if document["kind"] == "TokenReview":
            user = USERS.get(spec["token"])
            if not self.knows_audiences and spec.pop("audiences", None) is not None:
                return {"authenticated": True, "user": {"username": user}}
            audience = AUDIENCE if spec["token"] == AGENTS_ONLY else "https://kubernetes"
            asked = spec.get("audiences", ["https://kubernetes"])
            if user is None or audience not in asked:
                return {"user": {}, "error": "no such token"}
            named = {"username": user, "groups": ["system:authenticated"]}
            return {"authenticated": True, "user": named, "audiences": [audience]}
        wanted = spec["resourceAttributes"]
        assert (wanted["verb"], wanted["resource"], wanted["subresource"]) == ("get", "pods", "log")
        return {"allowed": wanted["namespace"] in self.may[spec["user"]]}


class _Reviews(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        api = cast(Api, self.server)
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        api.reviews.append(document)
        api.tokens.add(self.headers["Authorization"])
        api.answers.wait(20)
        answer = {**document, "status": api.review(document)}
        self.send_response(api.status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def api(certificates: Certificates) -> Iterator[Api]:
    with Api(certificates) as server:
        thread = threading.Thread(target=partial(server.serve_forever, 0.02))
        thread.start()
        yield server
        server.answers.set()
        server.shutdown()
        thread.join()


@pytest.fixture
async def port(
    api: Api, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[int]:
    """Port of an agent that asks ``api``."""
    account, folder = tmp_path / "account", tmp_path / "node"
    for made in (account, folder):
        made.mkdir()
    (account / "token").write_text("of-the-agent\n")
    shutil.copy(certificates.folder / "ca.crt", account)
    shutil.copy(RECORDING, folder)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.server_address[1]))
    recordings = NodeRecordings(folder)
    service = AgentService(recordings, None, RecorderStatus(recordings, "node1", None))
    server = Server([service])
    limit_calls(server, Authorizer(ApiServer(account), READ_REDACTED))
    listening = socket.create_server(("127.0.0.1", 0))
    await server.start(sock=listening)
    yield listening.getsockname()[1]
    server.close()
    await server.wait_closed()


@asynccontextmanager
async def client(port: int, token: str | None) -> AsyncIterator[v1.AgentStub]:
    channel = Channel("127.0.0.1", port)
    metadata = None if token is None else {"authorization": f"Bearer {token}"}
    try:
        yield v1.AgentStub(channel, metadata=metadata)
    finally:
        channel.close()


async def statuses(port: int, token: str | None, *namespaces: str) -> dict[str, Status | None]:
    """Return how each call ends; None: without an error."""
    ends: dict[str, Status | None] = {}
    names = list(namespaces)
    async with client(port, token) as stub:
        calls: dict[str, Any] = {
            "events": stub.get_events(v1.GetEventsRequest(namespaces=names)),
            "recording": stub.get_recording(v1.GetRecordingRequest(namespaces=names)),
        }
        for name, call in calls.items():
            ends[name] = None
            try:
                async for _ in call:
                    pass
            except GRPCError as error:
                ends[name] = error.status
        try:
            await stub.get_status(v1.GetStatusRequest())
            ends["status"] = None
        except GRPCError as error:
            ends["status"] = error.status
    return ends


@pytest.mark.parametrize("token", [None, "", "unknown", "Bearer " + SHOP])
async def test_a_call_without_a_valid_token_gets_nothing(port: int, token: str | None) -> None:
    assert set((await statuses(port, token, NAMESPACE)).values()) == {Status.UNAUTHENTICATED}


@pytest.mark.parametrize("token", [SHOP, AGENTS_ONLY])
async def test_a_reader_of_a_namespace_reads_that_namespace_only(
    port: int, api: Api, token: str
) -> None:
    assert set((await statuses(port, token, NAMESPACE)).values()) == {None}
    for namespaces in ((), ("",), (NODE_NAMESPACE,), (NAMESPACE, NODE_NAMESPACE)):
        ends = await statuses(port, token, *namespaces)
        assert ends.pop("status") is None
        assert set(ends.values()) == {Status.PERMISSION_DENIED}, namespaces
    assert api.tokens == {"Bearer of-the-agent"}


async def test_an_api_server_without_audiences_accepts_no_token_for_agents(
    port: int, api: Api
) -> None:
    api.knows_audiences = False
    assert set((await statuses(port, AGENTS_ONLY, NAMESPACE)).values()) == {Status.UNAUTHENTICATED}
    assert set((await statuses(port, SHOP, NAMESPACE)).values()) == {None}


async def test_events_are_those_of_the_namespace(port: int) -> None:
    async with client(port, SHOP) as stub:
        request = v1.GetEventsRequest(where=f"-ns:{NAMESPACE}", namespaces=[NAMESPACE])
        others = [one.event async for one in stub.get_events(request) if one.event is not None]
        request.where = ""
        own = [event.event async for event in stub.get_events(request) if event.event is not None]
    assert {one.method for one in others} <= {"Synchronize"}
    assert {one.namespace for one in own if one.method != "Synchronize"} == {NAMESPACE}
    assert not [one for one in (*own, *others) if b"kube-system" in one.request]


async def test_a_reader_of_all_namespaces_reads_a_node(port: int) -> None:
    assert set((await statuses(port, ADMIN)).values()) == {None}


async def test_answers_count_for_a_short_time(
    port: int, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await statuses(port, SHOP, NAMESPACE)
    before = len(api.reviews)
    assert before == 2, api.reviews
    await statuses(port, SHOP, NAMESPACE)
    assert len(api.reviews) == before
    monkeypatch.setattr(authorization, "CACHED_S", 0.0)
    api.may["shop-reader"] = set()
    assert (await statuses(port, SHOP, NAMESPACE))["events"] is Status.PERMISSION_DENIED


async def follow_until_withdrawn(
    stub: v1.AgentStub, request: v1.GetEventsRequest, api: Api
) -> None:
    """Read events; withdraw the permission when all that was recorded was sent."""
    async with asyncio.timeout(PATIENCE):
        async for response in stub.get_events(request):
            if response.heartbeat is not None and response.heartbeat.caught_up:
                api.may["shop-reader"] = set()


async def test_a_call_that_goes_on_ends_when_the_permission_is_withdrawn(
    port: int, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorization, "CACHED_S", 0.0)
    monkeypatch.setattr(authorization, "RECHECK_S", 0.0)
    monkeypatch.setattr("nri_scope.agent.service.HEARTBEAT_S", 0.1)
    async with client(port, SHOP) as stub:
        request = v1.GetEventsRequest(namespaces=[NAMESPACE], follow=True)
        reading = follow_until_withdrawn(stub, request, api)
        with pytest.raises(GRPCError) as raised:
            await reading
    assert raised.value.status is Status.PERMISSION_DENIED


async def test_an_api_server_that_fails_lets_nobody_in(
    port: int, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status in (200, 403, 500):
        api.status = status
        assert set((await statuses(port, ADMIN, NAMESPACE)).values()) == {Status.UNAVAILABLE}
    api.status = 201
    monkeypatch.setattr(authorization, "REVIEW_S", 0.2)
    api.answers.clear()
    assert set((await statuses(port, ADMIN, NAMESPACE)).values()) == {Status.UNAVAILABLE}
    api.answers.set()
    assert set((await statuses(port, ADMIN, NAMESPACE)).values()) == {None}


async def test_an_agent_without_a_service_account_does_not_start(tmp_path: Path) -> None:
    shutil.copy(RECORDING, tmp_path)
    done = await run(NRI_SCOPE, "agent", tmp_path, "--authorize", "--grpc", "127.0.0.1:0")
    assert (done.status, done.output) == (2, "")
    assert done.errors.startswith("nri-scope: --authorize: ")
    assert done.errors.count("\n") <= 2


# -- kubectl nri-scope --------------------------------------------------------------------------


def environment(tmp_path: Path, port: int, **user: Any) -> dict[str, str]:
    pods = [agent_pod("node1", "--authorize")]
    pods += [
        pod(NAMESPACE, CHECKOUT_POD, "node1", app="web"),
        pod(NODE_NAMESPACE, NODE_POD, "node1"),
    ]
    cluster = {"pods": pods, "ports": {"nri-scope-node1": port}, "user": user}
    return install(tmp_path / "bin", cluster)


def users(tmp_path: Path) -> list[dict[str, Any]]:
    """Return users of a kubeconfig with the same token."""
    (tmp_path / "token").write_text(f"{SHOP}\n")
    program = tmp_path / "login"
    credential = {"kind": "ExecCredential", "status": {"token": SHOP}}
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "asked = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "assert asked['kind'] == 'ExecCredential' and sys.argv[1:] == ['--me']\n"
        "assert os.environ['WHO'] == 'me'\n"
        f"print({json.dumps(json.dumps(credential))})\n"
    )
    program.chmod(0o755)
    named = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(program),
        "args": ["--me"],
        "env": [{"name": "WHO", "value": "me"}],
    }
    return [{"token": SHOP}, {"tokenFile": str(tmp_path / "token")}, {"exec": named}]


@pytest.mark.parametrize("kind", range(3))
async def test_the_token_of_the_user_is_passed_on(tmp_path: Path, port: int, kind: int) -> None:
    cluster = environment(tmp_path, port, **users(tmp_path)[kind])
    done = await run(KUBECTL, "log", CHECKOUT, environment=cluster)
    assert done.status == 0, done.errors
    assert "CreateContainer" in done.output
    assert SHOP not in done.output + done.errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("log", NODE),
        ("log", "--node", "node1"),
        ("log", "-l", "app=web", "-f", "--namespace", NODE_NAMESPACE),
        ("missing", "--plugin", "10-gpu"),
        ("collect", "-l", "app=web", "-o", "bundles"),
    ],
)
async def test_a_refusal_is_one_line(
    tmp_path: Path, port: int, api: Api, arguments: tuple[str, ...]
) -> None:
    if "app=web" in arguments:
        api.may["shop-reader"] = set()
    cluster = environment(tmp_path, port, token=SHOP)
    if NODE_NAMESPACE in arguments:
        shared = tmp_path / "bin" / "cluster.json"
        shared.write_text(shared.read_text().replace('"labels": {}', '"labels": {"app": "web"}'))
    words = [str(tmp_path / word) if word == "bundles" else word for word in arguments]
    done = await run(KUBECTL, *words, environment=cluster)
    assert (done.status, done.output) == (2, "")
    refusal = "node1: its agent refuses access: user shop-reader may not get pods/log in "
    assert refusal in done.errors
    assert len(done.errors.splitlines()) <= 2, done.errors


async def test_a_user_with_a_certificate_is_told_to_give_a_token(tmp_path: Path, port: int) -> None:
    cluster = environment(tmp_path, port, **{"client-certificate": "/me.crt"})
    done = await run(KUBECTL, "log", CHECKOUT, environment=cluster)
    assert (done.status, done.output) == (2, "")
    assert "your kubeconfig: it has no token, which the agents ask for" in done.errors
    assert "--token-file" in done.errors
    (tmp_path / "given").write_text(AGENTS_ONLY)
    given = ("--token-file", tmp_path / "given")
    done = await run(KUBECTL, "log", CHECKOUT, *given, environment=cluster)
    assert done.status == 0 and "CreateContainer" in done.output


async def test_an_agent_that_does_not_ask_gets_no_token(tmp_path: Path, port: int) -> None:
    cluster = environment(tmp_path, port, token=SHOP)
    shared = tmp_path / "bin" / "cluster.json"
    shared.write_text(shared.read_text().replace("--authorize", "--unredacted"))
    done = await run(KUBECTL, "log", CHECKOUT, environment=cluster)
    assert done.status == 2
    assert "refuses access: the call has no bearer token" in done.errors
