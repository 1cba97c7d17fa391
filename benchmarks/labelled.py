# SPDX-License-Identifier: Apache-2.0
"""The project's own redaction corpus: events with planted secrets, and harmless texts to keep."""

from __future__ import annotations

import base64
import gzip
import json
import string
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import cycle, islice
from random import Random
from typing import NamedTuple

from google.protobuf.message import Message

from benchmarks.corpora import Sample
from benchmarks.traffic import CAPTURES, captured
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall
from tests.interop.messages import parse

OWN = "own"
_LETTERS = string.ascii_letters + string.digits


class Case(NamedTuple):
    """A labelled event."""

    group: str
    name: str
    event: CapturedCall
    secrets: tuple[str, ...] = ()
    """Values that redaction must remove; empty if the event must remain unchanged."""
    kept: str = ""
    """Text that redaction must keep."""


# -- places ---------------------------------------------------------------------------------


@cache
def _real() -> api.CreateContainerRequest:
    stream = captured(CAPTURES / "containerd-2.1.9.jsonl.gz", "00-probe-a")
    return next(message for _, message in stream if isinstance(message, api.CreateContainerRequest))


def captured_event(
    request: Message,
    method: str = "CreateContainer",
    *,
    status: str = "",
    metadata: tuple[tuple[str, str], ...] = (),
    reply: bytes = b"",
) -> CapturedCall:
    """Return an event with all the fields that redaction searches."""
    return CapturedCall(
        wall_ns=0,
        mono_ns=0,
        method=method,
        request=request.SerializeToString(),
        reply=reply,
        status_code=2 if status else 0,
        status_message=status,
        took_ns=0,
        timeout_ns=0,
        metadata=metadata,
    )


def _container() -> api.CreateContainerRequest:
    request = api.CreateContainerRequest()
    request.CopyFrom(_real())
    return request


def _words(words: list[str]) -> CapturedCall:
    request = _container()
    request.container.args[:] = words
    return captured_event(request)


def _argument(text: str) -> CapturedCall:
    return _words(["/app", text])


def _script(text: str) -> CapturedCall:
    return _words(["sh", "-c", text])


def _variable(text: str) -> CapturedCall:
    request = _container()
    request.container.env.append(text)
    return captured_event(request)


def _annotation(text: str) -> CapturedCall:
    request = _container()
    request.pod.annotations["example.com/note"] = text
    return captured_event(request)


def _mount(text: str) -> CapturedCall:
    request = _container()
    request.container.mounts.add(destination="/data", source=f"/var/lib/{text}", type="bind")
    return captured_event(request)


def _options(text: str) -> CapturedCall:
    request = _container()
    request.container.mounts.add(destination="/data", type="cifs", options=text.split(","))
    return captured_event(request)


def _hook(text: str) -> CapturedCall:
    request = _container()
    request.container.hooks.prestart.add(path="/bin/hook", args=["hook", text])
    return captured_event(request)


def _configuration(text: str) -> CapturedCall:
    return captured_event(api.ConfigureRequest(config=text, runtime_name="containerd"), "Configure")


def _metadata(text: str) -> CapturedCall:
    key, _, value = text.partition(": ")
    return captured_event(_container(), metadata=((key, value),))


def _status(text: str) -> CapturedCall:
    return captured_event(_container(), status=text)


# Places whose names do not suggest a secret: a credential is found there by its format alone.
TOKEN_PLACES: dict[str, Callable[[str], CapturedCall]] = {
    "argument": _argument,
    "option": lambda token: _argument(f"--anything={token}"),
    "script": lambda token: _script(f"set -e; run '{token}' && echo done"),
    "annotation": lambda token: _annotation(f"see {token}, or ask"),
    "JSON": lambda token: _annotation(json.dumps({"note": token, "n": 1})),
    "YAML": lambda token: _configuration(f"anything:\n  - {token}\n"),
    "URL": lambda token: _argument(f"https://api.example.com/x?a={token}&b=1"),
    "mount": _mount,
    "hook": _hook,
    "metadata": lambda token: _metadata(f"x-anything: {token}"),
    "status": lambda token: _status(f"exec: {token}: not found"),
}


# -- secrets found by their place ------------------------------------------------------------


def _password(chance: Random) -> str:
    return "".join(chance.choice(_LETTERS) for _ in range(9)) + "7"


def _hex(chance: Random) -> str:
    return chance.randbytes(16).hex()


def _symbols(chance: Random) -> str:
    return "".join(chance.choice(_LETTERS + "!%*+-.^_~") for _ in range(13)) + "x7"


def _reference_like(chance: Random) -> str:
    return "$tr0ng" + "".join(chance.choice(_LETTERS) for _ in range(6))


_SECRETS = (_password, _hex, _symbols, _reference_like)

_Place = Callable[[str], CapturedCall]
_PLANTED: dict[str, tuple[_Place, tuple[str, ...]]] = {
    "variables": (
        _variable,
        (
            "DB_PASSWORD={}",
            "ANYTHING={}",
            'SPRING_APPLICATION_JSON={{"spring":{{"x":"{}"}}}}',
            "DATABASE_URL=postgres://app:{}@db:5432/shop",
            "JAVA_OPTS=-Xmx1g -Dkey.password={}",
            "TOKEN2={}",
        ),
    ),
    "arguments": (
        _argument,
        (
            "--db-password={}",
            "--api-key={}",
            "password={}",
            "redis://:{}@redis:6379/0",
            "amqp://app:{}@mq/vhost?heartbeat=1",
            "postgres://app:{}@/db?host=/run",
            "app:{}@tcp(db:3306)/shop",
            "https://api.example.com/?key={}&x=1",
            "https://api.example.com/?access_token={}",
            "--dbpass={}",
            "--bindpw={}",
            "AccountName=acme;AccountKey={};x=1",
        ),
    ),
    "scripts": (
        _script,
        (
            "export DB_PASSWORD='{}'; run",
            "curl -u admin:{} http://api",
            "curl -H 'Authorization: Bearer {}' http://api",
            "curl -H 'Authorization: token {}' http://api",
            "curl -H 'X-Api-Key: {}' http://api",
            "mysql -u root -p{} shop",
            "mongosh -u root -p {} shop",
            "docker login -u x -p {} registry",
            "redis-cli -a {} ping",
            "sshpass -p {} ssh host",
            "PGPASSWORD={} psql -h db",
            "echo machine api login me password {} > ~/.netrc",
        ),
    ),
    "annotations": (
        _annotation,
        (
            '{{"clientSecret": "{}"}}',
            '{{"credentials": {{"alice": "{}"}}}}',
            '{{"passwords": ["{}"]}}',
            '{{"kind": "Secret", "stringData": {{"a": "{}"}}}}',
            "<server><password>{}</password></server>",
            'password = "{}"',
            "the password: {}",
            "authtoken={}",
        ),
    ),
    "Configure": (
        _configuration,
        (
            "password: {}\nport: 80\n",
            "credentials:\n  alice: {}\n",
            "tokens:\n  - {}\n",
            "auth: {{user: x, password: {}}}\n",
            "private_key: |\n  {}\n  x\nport: 80\n",
            "password: '{}'\n",
            "kind: Secret\nstringData:\n  a: {}\n",
            "accountkey: {}\n",
            "pass1: {}\n",
            "[server]\npassword = {}\n",
        ),
    ),
    "mount options": (
        _options,
        ("username=app,password={}", "secret={},name=admin", "ro,credentials={}"),
    ),
    "hooks": (_hook, ("--token={}", "PASSWORD={}")),
    "metadata": (_metadata, ("authorization: {}", "x-api-key: {}", "cookie: id={}")),
    "status": (
        _status,
        ("invalid password: {}", "dial https://app:{}@api: refused", "bad --token {} given"),
    ),
}


def planted(samples: int) -> Iterator[Case]:
    """Yield secrets in places whose names suggest a secret."""
    chance = Random(1)
    for group, (place, templates) in _PLANTED.items():
        for template in templates:
            for number in range(samples):
                secret = _SECRETS[number % len(_SECRETS)](chance)
                text = template.format(secret)
                name = template.format("…").replace("\n", "⏎")
                yield Case(f"{OWN}: {group}", name, place(text), (secret,))
    # The option's name and its value are separate arguments.
    for words in (
        ["app", "--password", "{}"],
        ["mysql", "-p{}"],
        ["mongosh", "-p", "{}"],
        ["docker", "login", "-p", "{}"],
        ["curl", "-u", "admin:{}"],
        ["tini", "--", "redis-cli", "-a", "{}"],
        ["curl", "-H", "Authorization: Bearer {}"],
    ):
        for number in range(samples):
            secret = _SECRETS[number % len(_SECRETS)](chance)
            event = _words([word.format(secret) for word in words])
            yield Case(f"{OWN}: arguments", " ".join(words).format("…"), event, (secret,))
    for number in range(samples):
        secret = _SECRETS[number % len(_SECRETS)](chance)
        content = json.dumps({"auths": {"registry": {"auth": secret}}}).encode()
        packed = base64.b64encode(content).decode()
        yield Case(f"{OWN}: annotations", "JSON in base64", _annotation(packed), (secret,))


# -- harmless texts --------------------------------------------------------------------------

_ID = "c9f0f895fb98ab9159f51fd0297e236dc9f0f895fb98ab9159f51fd0297e236d"
_UID = "3f0c5c1e-7d3b-4a55-9c2e-0a1b2c3d4e5f"
_COMMIT = "d670460b4b4aece5915caf5c68d12f560a9fe3e4"
_STAYING: dict[str, tuple[_Place, tuple[str, ...]]] = {
    "variables": (
        _variable,
        (
            "GIT_COMMIT=" + _COMMIT,
            "JAVA_OPTS=-Xms512m -Xmx512m -XX:+UseG1GC",
            "RUST_LOG=info,hyper=warn",
            "NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470,driver<471",
            "PCIDEVICE_INTEL_COM_SRIOV=0000:3b:02.1,0000:3b:02.2",
            "GOMAXPROCS=4",
            "MAX_TOKENS=4096",
            "TOKENIZERS_PARALLELISM=false",
            "APP_VERSION=1.27.3-alpine",
            "PYTHON_VERSION=3.12.4",
            "KUBERNETES_SERVICE_PORT_HTTPS=443",
            "LOG_LEVEL=debug",
            "AUTH_ENABLED=true",
            "OMP_NUM_THREADS=8",
            "NODE_ENV=production",
            "CUDA_VISIBLE_DEVICES=GPU-" + _UID,
        ),
    ),
    "arguments": (
        _argument,
        (
            "--max-tokens=4096",
            "--auth=none",
            "--webhook=enabled",
            "--authorization-mode=Node,RBAC",
            "--initial-cluster-token=etcd-cluster-1",
            "--service-account-key-file=/etc/kubernetes/pki/sa.pub",
            "--token-ttl=24h",
            "--feature-gates=AllAlpha=false,CPUManager=true",
            "--cpu-list=0-3,8-11",
            "--container-id=" + _ID,
            "--pod=" + _UID,
            "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "--leader-election-id=53822513.intel.com",
            "--image=quay.io/prometheus/node-exporter:v1.8.2-distroless",
            "--commit=" + _COMMIT,
            "sha256:" + _ID,
            "--device=0000:3b:00.1",
            "--password-file=/run/secrets/db",
            "--log-format=%(asctime)s-%(levelname)s",
            "--metrics-bind-address=:8080",
        ),
    ),
    "annotations": (
        _annotation,
        (
            '{"limits":{"memory":"512Mi","hugepages-2Mi":"1Gi"},"numa":[0,1]}',
            '[{"name":"kindnet","interface":"eth0","mtu":1500,"default":true}]',
            "uses token bucket filters with 128 tokens",
            "cri-containerd-" + _ID + ".scope",
            "nvidia.com/gpu=GPU-" + _UID,
            "md5:d41d8cd98f00b204e9800998ecf8427e",
            "2024-06-01T12:00:00.123456789Z",
            "confluent-kafka-7d9c6b5f48-x2v9q",
            "localhost/nvidia-mps-control-daemon",
            "cpu-quota.crio.io=disable;irq-load-balancing.crio.io=disable",
        ),
    ),
    "Configure": (
        _configuration,
        (
            'credentials: {"type": "none"}\n',
            "auth: none\n",
            "reservedCPUs: 0-1\npinCPU: true\n",
            "tokens: 100\nburst: 20\n",
            "secretName: db-credentials\n",
            "instrumentation:\n  httpEndpoint: :8891\n  prometheusExport: true\n",
            "loggers:\n  libraries: debug\n  auth: info\n",
        ),
    ),
    "mounts": (
        _mount,
        (
            f"kubelet/pods/{_UID}/volumes/kubernetes.io~projected/kube-api-access-x7k2p",
            f"containerd/io.containerd.grpc.v1.cri/containers/{_ID}/volumes/data",
            "docker/overlay2/l/6Y5IM2XC7TSNIJZZFLJCS6I4I4",
        ),
    ),
    "status": (
        _status,
        (
            "container " + _ID + " not found",
            "failed to create shim task: OCI runtime create failed: exec: no such file",
            "context deadline exceeded: token expired",
            "invalid CPU set 0-3,64",
        ),
    ),
}


def staying() -> Iterator[Case]:
    """Yield texts that are needed for debugging, and texts that resemble secrets."""
    for group, (place, texts) in _STAYING.items():
        for text in texts:
            yield Case(f"stays: {group}", text.replace("\n", "⏎"), place(text), kept=text)


def of_samples(group: str, samples: Iterable[Sample], places: int) -> Iterator[Case]:
    """Yield the credentials of a corpus, each in the next ``places`` places of the cycle."""
    turns = cycle(TOKEN_PLACES.items())
    for name, text, secret in samples:
        for place, plant in islice(turns, places):
            yield Case(group, f"{name} ({place})", plant(text), (secret,))


def real() -> Iterator[CapturedCall]:
    """Yield all captured events of real runtimes; they contain no secrets."""
    for path in sorted(CAPTURES.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                item = json.loads(line)
                yield captured_event(
                    parse(item["method"], base64.b64decode(item["request_b64"])),
                    item["method"],
                    reply=base64.b64decode(item.get("reply_b64") or ""),
                )
