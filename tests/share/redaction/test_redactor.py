# SPDX-License-Identifier: Apache-2.0
"""Values that the default rules replace, and values that they keep."""

from __future__ import annotations

import json

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE
from nri_scope.nri.changes import changes_of
from nri_scope.nri.events import METHODS
from nri_scope.recording.reading.event_messages import status_request
from nri_scope.share.redaction import NameKind, Redactor, Rules
from nri_scope.share.redaction.engine import MAX_TEXT

KEY = bytes(range(32))
POD = api.PodSandbox(id="8f14e45f", name="checkout-0", uid="u-1", namespace="shop")


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(Rules.DEFAULT, KEY)


def given(redactor: Redactor, **fields: object) -> api.Container:
    """Return the redacted container with these fields."""
    request = api.CreateContainerRequest(
        pod=POD,
        container=api.Container(id="c1", name="server", **fields),  # type: ignore[arg-type]
    )
    content = redactor.request("CreateContainer", request.SerializeToString())
    return api.CreateContainerRequest.FromString(content).container


def env(redactor: Redactor, *entries: str) -> list[str]:
    return list(given(redactor, env=list(entries)).env)


# -- unchanged --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    [
        "PATH=/usr/local/sbin:/usr/bin",
        "LANG=de_DE.UTF-8",
        "TZ=Europe/Berlin",
        "DEBUG=true",
        "GOMAXPROCS=4",
        "GOMEMLIMIT=512MiB",
        "TIMEOUT=1h30m",
        "RATIO=0.75",
        "CPUS=0-3,8",
        "LOG_LEVEL=INFO",
        "VERSION=1.25.3",
        "SSL_CERT_FILE=/etc/ssl/certs/ca.pem",
        "JAVA_HOME=/opt/java/openjdk",
        "POD_NAME=checkout-0",
        "POD_NAMESPACE=shop",
        "CONTAINER=server",
        "EMPTY=",
        "SECRET_FROM=$(DB_PASSWORD)",
        "TOKEN=true",
    ],
)
def test_plain_variables_are_unchanged(redactor: Redactor, entry: str) -> None:
    if entry.startswith("SECRET_FROM"):
        entry = entry.replace("SECRET_FROM", "DB_SECRET")
    assert env(redactor, entry) == [entry]


@pytest.mark.parametrize(
    "text", ["redacted-abcdefghipwd: open door", 'redacted-abcdefgpass2 "x y"']
)
def test_a_token_is_no_key(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "/usr/bin/java",
        "-Xmx512m",
        "--server.port=8080",
        "--brokers=kafka-0.kafka.shop.svc.cluster.local:9092",
        "--token-ttl=10m",
        "--tls-private-key-file=/etc/tls/tls.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--bind-address=0.0.0.0",
        "daemon off;",
        "- path: /dev/nri-null\n  type: c\n  major: 1\n  minor: 3\n",
        "nvidia.com/gpu=0",
        "/var/lib/containerd/io.containerd.runtime.v2.task/k8s.io/rootfs",
        "kubepods-burstable-pod3f1c2b7e.slice:cri-containerd",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "user@1000.service",
        "2025-11-20T21:18:00.123456789Z",
        "rpc error: code = NotFound desc = container not found",
        "basic authentication failed",
        "127.0.0.1:8080 and [::1]:53",
        "– ☕ … →",
    ],
)
def test_ordinary_texts_are_unchanged(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text
    assert redactor.tally.total == 0


def test_limits_devices_and_numbers_are_unchanged(redactor: Redactor) -> None:
    linux = api.LinuxContainer(
        resources=api.LinuxResources(
            memory=api.LinuxMemory(limit=api.OptionalInt64(value=1 << 30)),
            cpu=api.LinuxCPU(cpus="0-3,8"),
            unified={"memory.high": "max"},
        ),
        devices=[api.LinuxDevice(path="/dev/null", type="c", major=1, minor=3)],
        sysctl={"net.ipv4.ip_forward": "1"},
    )

    assert given(redactor, linux=linux).linux == linux


# -- replaced ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "gone", "rule"),
    [
        ("--db-password=x1y2", "x1y2", "credential-keys"),
        ('{"clientSecret": "x1y2"}', "x1y2", "credential-keys"),
        ("password: x1 y2\nport: 80", "x1 y2", "credential-keys"),
        ("private_key: |\n  abc\n  def\nport: 80", "def", "credential-keys"),
        ("AccountName=acme;AccountKey=x1y2==;x=1", "x1y2==", "credential-keys"),
        ("--header 'Authorization: Bearer x1y2z3w4'", "x1y2z3w4", "credential-keys"),
        ("Cookie: id=17; theme=dark", "id=17", "credential-keys"),
        ("https://x1y2@git.example.com/a", "x1y2", "url-passwords"),
        ("redis://:x1y2@redis:6379", "x1y2", "url-passwords"),
        ("postgres://app:p@ss/w0rd@db:5432/x", "ss/w0rd", "url-passwords"),
        ("key AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE", "unknown-words"),
        ("ghp_" + "a1B2" * 9, "a1B2a1B2", "unknown-words"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----",
            "AAAA",
            "credential-keys",
        ),
        ("see zT8kQ2vX9mB4nR7wL1pJ now", "zT8kQ2vX9mB4nR7wL1pJ", "unknown-words"),
        ("ask jane.doe@acme.com", "jane", "emails"),
        ("dial tcp 10.0.0.1:443: refused", "10.0.0.1", "addresses"),
        ("lookup db.acme.corp: no such host", "acme", "host-names"),
        ("open /home/jane/.kube/config", "jane", "user-paths"),
        ("C:\\Users\\jane\\x", "jane", "user-paths"),
    ],
)
def test_secret_and_personal_values_in_texts_are_replaced(
    redactor: Redactor, text: str, gone: str, rule: str
) -> None:
    given_ = redactor.text(text, "note.text")

    assert gone not in given_
    assert rule in redactor.tally.by_rule()
    assert {count.place for count in redactor.tally} == {"note.text"}


def test_credentials_in_a_command_line_are_replaced(redactor: Redactor) -> None:
    args = ["mysql", "-u", "jane:x1y2", "-px1y2z3", "--user", "1000:1000", "--token", "a1b2", "db"]
    shown = list(given(redactor, args=args).args)

    assert shown[0] == "mysql" and shown[5] == "1000:1000" and shown[8] == "db"
    assert not {"jane", "x1y2", "x1y2z3", "a1b2"} & {
        part for word in shown for part in word.replace("-p", "").split(":")
    }


def test_annotations_with_manifests_and_persons_are_replaced(redactor: Redactor) -> None:
    shown = given(
        redactor,
        annotations={
            "example.com/owner": "jane",
            "example.com/team": "payments",
            "io.kubernetes.cri.image-name": "registry.acme.corp:5000/shop/app:1.4",
            "io.kubernetes.cri.podsandbox.image-name": "registry.k8s.io/pause:3.9",
        },
    ).annotations

    assert shown["example.com/team"] == "payments"
    assert shown["example.com/owner"].startswith("redacted-")
    image = shown["io.kubernetes.cri.image-name"]
    assert image.startswith("redacted-") and image.endswith(".invalid:5000/shop/app:1.4")
    assert shown["io.kubernetes.cri.podsandbox.image-name"] == "registry.k8s.io/pause:3.9"


def test_unknown_fields_are_removed_and_counted(redactor: Redactor) -> None:
    message = api.StopPodSandboxRequest(pod=POD)
    content = message.SerializeToString()
    # Field 999, length-delimited.
    extended = content + b"\xba\x3e\x07hunter2"

    assert redactor.request("StopPodSandbox", extended) == content
    assert [(one.rule, one.place) for one in redactor.tally] == [
        ("unknown-fields", "StopPodSandboxRequest")
    ]


@pytest.mark.parametrize(
    ("method", "content"),
    [
        ("CreateContainer", b"\xff\xfehunter2"),
        ("Unheard", b"hunter2"),
        (CONTAINER_STATUS, b"hunter2"),
    ],
)
def test_unreadable_messages_become_one_token(
    redactor: Redactor, method: str, content: bytes
) -> None:
    for redact in redactor.request, redactor.reply:
        once = redact(method, content)

        assert once.startswith(b"redacted-") and len(once) == 21
        assert redact(method, once) == once
    assert redactor.tally.by_rule() == {"unreadable": 2}


def test_the_spec_in_a_cri_status_is_redacted_like_messages(redactor: Redactor) -> None:
    answer = {
        "pid": 17,
        "config": {
            "metadata": {"name": "server"},
            "image": {"image": "registry.acme.corp/shop/app"},
            "envs": [{"key": "DB_PASSWORD", "value": "hunter2"}, {"key": "DEBUG", "value": "1"}],
            "annotations": {"example.com/owner": "jane"},
        },
        "runtimeSpec": {
            "hostname": "worker-3.acme.corp",
            "process": {"args": ["serve", "hunter2"], "env": ["DB_PASSWORD=hunter2", "PATH=/bin"]},
            "mounts": [{"destination": "/data", "source": "/home/jane/data"}],
        },
    }
    shown = redactor.reply(CONTAINER_STATUS, json.dumps(answer).encode(), service=CRI_SERVICE)
    read = json.loads(shown)

    assert not any(text in shown for text in (b"hunter2", b"acme", b"jane"))
    token = read["config"]["envs"][0]["value"]
    assert read["config"]["envs"][1] == {"key": "DEBUG", "value": "1"}
    assert read["runtimeSpec"]["process"] == {
        "args": ["serve", token],
        "env": [f"DB_PASSWORD={token}", "PATH=/bin"],
    }
    assert read["pid"] == 17
    assert redactor.reply(CONTAINER_STATUS, shown, service=CRI_SERVICE) == shown
    question = status_request("c1")
    assert redactor.request(CONTAINER_STATUS, question, service=CRI_SERVICE) == question


# -- names, paths -----------------------------------------------------------------------------


def test_names_are_unchanged(redactor: Redactor) -> None:
    assert redactor.name(NameKind.POD, "checkout-x9y8z7w6") == "checkout-x9y8z7w6"
    assert redactor.name(NameKind.PLUGIN, "10-limits") == "10-limits"
    assert redactor.name(NameKind.POD, "not a name x9y8z7w6").startswith("not a name redacted-")


def test_paths_match_the_redacted_messages(redactor: Redactor) -> None:
    adjust = api.ContainerAdjustment(
        annotations={"example.com/note": "hunter2"},
        mounts=[api.Mount(destination="/home/jane/data"), api.Mount(destination="-/hunter2/x")],
        env=[api.KeyValue(key="DB_PASSWORD", value="hunter2"), api.KeyValue(key="-OLD")],
        hooks=api.Hooks(poststop=[api.Hook(path="/bin/x")]),
    )
    adjust.linux.resources.unified["memory.high"] = "1"
    adjust.linux.devices.add(path="/dev/null")
    reply = api.CreateContainerResponse(adjust=adjust)
    before = changes_of("CreateContainer", None, reply, "10-x")[0]
    content = reply.SerializeToString()
    shown = METHODS["CreateContainer"].reply.FromString(redactor.reply("CreateContainer", content))
    after = changes_of("CreateContainer", None, shown, "10-x")[0]

    assert sorted(map(redactor.path, before)) == sorted(after)
    assert not any("hunter2" in path or "jane" in path for path in after)
    assert "/process/env/DB_PASSWORD" in after and "/process/env/OLD" in after
    for path in after:
        assert redactor.path(path) == path


def test_unchanged_values_are_not_counted(redactor: Redactor) -> None:
    env(redactor, "DB_PASSWORD=hunter2", "PATH=/bin")

    assert [(one.rule, one.place, one.values) for one in redactor.tally] == [
        ("credential-keys", "container.env.DB_PASSWORD", 1)
    ]


def test_a_text_longer_than_the_limit_is_one_token(
    redactor: Redactor,
) -> None:
    word = "ordinary words "
    longest = (word * (MAX_TEXT // len(word) + 1))[:MAX_TEXT]

    assert redactor.text(longest) == longest
    assert redactor.text(longest + "!").startswith("redacted-")
    assert redactor.tally.by_rule() == {"long-texts": 1}


def test_a_mount_with_the_name_of_its_pod_is_replaced_in_another_pod() -> None:
    own, other = (
        api.PodSandbox(id=name * 8, name=name, uid=name, namespace="shop")
        for name in ("qzx7", "kw93")
    )
    named = api.Mount(destination="/data", source="/srv/qzx7")
    plain = api.Mount(destination="/tmp", source="/var/tmp")

    def sources(redactor: Redactor, pod: api.PodSandbox, *mounts: api.Mount) -> list[str]:
        container = api.Container(id=f"c{pod.id}", pod_sandbox_id=pod.id, mounts=mounts)
        request = api.StartContainerRequest(pod=pod, container=container).SerializeToString()
        content = redactor.request("StartContainer", request)
        return [
            mount.source for mount in api.StartContainerRequest.FromString(content).container.mounts
        ]

    redactor = Redactor(Rules.DEFAULT, KEY)
    # The second list contains a mount that is known, and is itself new.
    assert sources(redactor, own, named) == ["/srv/qzx7"]
    assert sources(redactor, own, named, plain) == ["/srv/qzx7", "/var/tmp"]
    source, tmp = sources(redactor, other, named, plain)
    assert source.startswith("/srv/redacted-")
    assert tmp == "/var/tmp"


def test_names_are_shown_in_texts_of_their_own_pod_and_of_no_pod(redactor: Redactor) -> None:
    redactor.note_names([(NameKind.POD, "0ther", "zqx-0"), (NameKind.POD, "8f14e45f", "qzx-0")])

    assert env(redactor, "ANY=qzx-0") == ["ANY=qzx-0"]
    assert env(redactor, "ANY=zqx-0") != ["ANY=zqx-0"]
    assert redactor.text("cannot start zqx-0, qzx-0.") == "cannot start zqx-0, qzx-0."


@pytest.mark.parametrize(
    "text",
    [
        "Server=db;PWD=dragon;",
        "admin:dragon@10.0.0.5:5432/app",
        "postgres://admin:correct@dragon@db/x",
        "postgres://admin:horse/dragon@db",
        "see http://db/?to=https://admin:dragon@db",
        '<password encrypted="false">dragon</password>',
        '<wsse:Password Type="text">dragon</wsse:Password>',
        "<password><![CDATA[dragon]]></password>",
        "<password>\n  dragon\n</password>",
        "password = correct horse dragon",
        "port 1\nclient_secret dragon\n",
    ],
)
def test_a_word_of_the_vocabulary_is_replaced_as_a_password(text: str) -> None:
    assert "dragon" not in Redactor(Rules.DEFAULT, bytes(32)).text(text)


@pytest.mark.parametrize("line", ["redis-cli config set requirepass", "login -p x --password"])
@pytest.mark.parametrize("password", ["dragon", "-dragon"])
def test_a_word_of_the_vocabulary_is_replaced_as_an_argument(line: str, password: str) -> None:
    request = api.CreateContainerRequest(container=api.Container(args=[*line.split(), password]))
    content = request.SerializeToString()
    shown = Redactor(Rules.DEFAULT, bytes(32)).request("CreateContainer", content)

    *before, last = api.CreateContainerRequest.FromString(shown).container.args
    assert before == line.split()
    assert last.startswith("redacted-")


@pytest.mark.parametrize(
    "text",
    [
        "PWD=/usr/local",
        "https://registry.k8s.io:443/pause@sha256:" + "ab" * 32,
        "docker://registry.k8s.io/pause:3.9@sha256:" + "ab" * 32,
        "http://[::1]:8080/metrics@1",
        "usage: login <user> <password> [options]",
        'secret "name" was not found',
    ],
)
def test_what_is_no_password_stays(text: str) -> None:
    assert Redactor(Rules.DEFAULT, bytes(32)).text(text) == text
