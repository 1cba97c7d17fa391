# SPDX-License-Identifier: Apache-2.0
"""Credentials in particular places and forms, and values beside them needed for debugging."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE
from nri_scope.recording.cri_answers import status_request
from nri_scope.share.bundle.leak_scan import Needles
from nri_scope.share.redaction import Redactor, Rules
from nri_scope.specs import Spec, patch_of, patched

KEY = bytes(range(32))


def text(content: str) -> str:
    redactor = Redactor(Rules.DEFAULT, KEY)
    shown = redactor.text(content)
    assert Redactor(Rules.DEFAULT, bytes(32)).text(shown) == shown
    assert Needles(redactor.originals()).find(shown.encode()) is None
    return shown


def container(**fields: object) -> api.Container:
    request = api.CreateContainerRequest(
        container=api.Container(id="c1", name="app", **fields)  # type: ignore[arg-type]
    )
    redactor = Redactor(Rules.DEFAULT, KEY)
    shown = redactor.request("CreateContainer", request.SerializeToString())
    assert Needles(redactor.originals()).find(shown) is None
    assert Redactor(Rules.DEFAULT, bytes(32)).request("CreateContainer", shown) == shown
    return api.CreateContainerRequest.FromString(shown).container


# -- replaced ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["$tr0ngPa55", "${tr0ngPa55", "${tr0ng}Pa55", "$(tr0ng)Pa55"])
def test_values_that_kubernetes_does_not_expand_are_replaced(value: str) -> None:
    shown = container(
        env=[f"DB_PASSWORD={value}"],
        args=["app", f"--password={value}", "--api-token", value],
        annotations={"example.com/password": value, "example.com/a": f"password: {value}"},
        hooks=api.Hooks(prestart=[api.Hook(path="/a", env=[f"PGPASSWORD={value}"])]),
    )
    assert "tr0ng" not in str(shown) and "Pa55" not in str(shown)


@pytest.mark.parametrize("value", ["$(OTHER)", "$(other_1.a-b)"])
def test_references_to_variables_are_unchanged(value: str) -> None:
    args = ["app", f"--password={value}", "--api-token", value]
    shown = container(env=[f"DB_PASSWORD={value}"], args=args)

    assert list(shown.env) == [f"DB_PASSWORD={value}"] and list(shown.args) == args


@pytest.mark.parametrize(
    ("key", "value", "left"),
    [
        ("authorization", "Bearer x1y2z3", "Bearer "),
        ("authorization", "ApiKey x1y2z3", "ApiKey "),
        ("authorization", "x1y2z3", ""),
        ("x-api-key", "x1y2z3", ""),
        ("grpc-trace-token", "x1y2z3", ""),
    ],
)
def test_metadata_with_a_credential_key_is_replaced(key: str, value: str, left: str) -> None:
    shown = Redactor(Rules.DEFAULT, KEY).keyed(key, value, "tapped.metadata")

    assert shown[0] == key
    assert shown[1].startswith(left + "redacted-") and "x1y2" not in shown[1]


def test_trace_context_is_kept_but_for_credentials() -> None:
    parent = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    redactor = Redactor(Rules.DEFAULT, KEY)
    assert redactor.keyed(*parent, "tapped.metadata") == parent
    _, state = redactor.keyed("tracestate", "token=AKIAIOSFODNN7EXAMPLE", "tapped.metadata")
    assert "AKIA" not in state


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("postgres://app:", "@/db?host=/cloudsql/a"),
        ("postgres://app:", "@${DB_HOST}/db"),
        ("postgres://app:", "@{{ .Values.host }}/db"),
        ("postgres://app:", "@$(DB_HOST):5432/db"),
        ("postgres://app:", "@münchen/db"),
        ("postgres://app:", "@数据库:5432/db"),
        ("postgres://app:", "@<host>/db"),
        ('psql "postgres://app:', '@"$PGHOST/db'),
        ("url = 'amqp://app:", "@' + host"),
        ("url: amqp://app:", "@"),
        ("CREATE USER app IDENTIFIED BY '", "';"),
        ("create user app identified by ", ";"),
        ("SET PASSWORD FOR 'app'@'%' = '", "';"),
        ("ALTER USER app IDENTIFIED BY 'it''s ", "' ACCOUNT LOCK"),
        ("ALTER USER app IDENTIFIED BY 'it\\'s ", "';"),
        ("set password ", "\n"),
        ("//app:", "@server/share"),
        ("mount -t cifs //app:", "@server/share /mnt"),
        ('mysql -e "alter user app identified with sha256_password by \\"', '\\""'),
        ('{"a": "postgres:\\/\\/app:', '@db\\/x"'),
        ("app:", "@tcp(db:3306)/shop?parseTime=true"),
        ("app:", "@unix(/run/mysql.sock)/shop"),
        ("app:", "@/shop"),
        ("app/", "@//db:1521/shop"),
        ("app/", "@db:1521/shop"),
        ("jdbc:oracle:thin:app/", "@db:1521:shop"),
        ("Server=db,1433;User Id=app;Password=", ";Encrypt=true"),
        ("Data Source=db;Pwd=", ";Pooling=false"),
        ("Driver={ODBC};Server=db;Uid=app;Pwd=", ";"),
        ("DRIVER={ODBC};SERVER=db;UID=app;PWD=", ";"),
        ("DRIVER={ODBC};SERVER=db; PWD=", "; UID=app"),
        ("host=db port=5432 user=app password=", " dbname=shop"),
        ("host=db user=app password='", "' dbname=shop"),
        ("db:5432:shop:app:", "\n"),
        ("# comment\n*:*:*:app:", "\n"),
        ("machine db login app password ", "\nmachine b login c"),
        ("machine db\n  login app\n  password ", "\n"),
        ("https://example.com/a?key=", "&page=2"),
        ("https://example.com/a?b=1&sig=", "&page=2"),
        ("https://example.com/a?X-Amz-Signature=", "&X-Amz-Expires=60"),
    ],
)
def test_only_the_password_of_a_connection_is_replaced(before: str, after: str) -> None:
    for secret in ("x1$y2z3w4", "x1:y2z3w4", "x1é世y2z3w4", "$x1{y2z3w4"):
        shown = text(before + secret + after)

        assert "y2z3" not in shown and "x1" not in shown, secret
        assert text(shown) == shown
        assert shown.endswith(after), secret


@pytest.mark.parametrize(
    "value",
    [
        "AKIAIOSFODNN7EXAMPLE:the-rest-of-it-1",
        "eyJhbGciOiJSU0EtT0FFUCJ9.OKOawDo13gRp2ojaHV7LFpZcgV7T6DVZKTyKOMTYUmKoTCVJRgckCL9kiMT03JGe."
        "48V1_ALb6US04U3b.5eym8TW_c8SuK0ltJ3rpYIzOeDQz7TALvtu6UG9oMo4vpzs9tX_EFShS8iB7j6ji."
        "XFBoMYUZodetZdvTiFvSkQ",
        "the-start-1 ghp_a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2 the-end-2",
    ],
)
def test_the_whole_value_of_a_credential_key_is_replaced(value: str) -> None:
    parts = value.replace(":", " ").replace(".", " ").split()
    for shown in (
        text(f"password: {value}\nport: 80"),
        text(json.dumps({"token": value})),
        text(f"run --secret='{value}' --debug"),
        str(container(env=[f"API_TOKEN={value}"], annotations={"a/password": value})),
    ):
        assert not [part for part in parts if part in shown]


def test_a_config_json_is_redacted_as_the_runtimes_spec() -> None:
    spec: Spec = {"process": {"env": ["A_TOKEN=x1y2z3", "PATH=/bin"]}, "hostname": "h1"}
    config: Spec = {
        "process": {"env": ["A_TOKEN=x1y2z3", "DB_PASSWORD=it is"], "args": ["--token=a1b2"]},
        "annotations": {"a/password": "x1y2z3", "note": "plain"},
        "hostname": "h1",
    }
    redactor = Redactor(Rules.DEFAULT, KEY)

    def redacted(status: dict[str, Spec]) -> dict[str, Spec]:
        answer: dict[str, Spec] = json.loads(
            redactor.reply(CONTAINER_STATUS, json.dumps(status).encode(), service=CRI_SERVICE)
        )
        return answer

    redactor.request(CONTAINER_STATUS, status_request("c" * 64), service=CRI_SERVICE)
    both = redacted({"runtimeSpec": spec, "bundleSpec": patch_of(spec, config)})
    shown = patched(both["runtimeSpec"], both["bundleSpec"])
    assert shown == redacted({"runtimeSpec": config})["runtimeSpec"]
    assert "x1y2z3" not in str(both) and "it is" not in str(both) and "plain" in str(both)


@pytest.mark.parametrize("option", ["password=it's x1y2", 'password="x1 y2z3', "a=b,pass=x 'y2z3"])
def test_the_whole_password_of_a_mount_is_replaced(option: str) -> None:
    shown = container(mounts=[api.Mount(destination="/a", options=["rw", option])])
    status = {"runtimeSpec": {"mounts": [{"destination": "/a", "options": ["rw", option]}]}}
    answer = Redactor(Rules.DEFAULT, KEY).reply(
        CONTAINER_STATUS, json.dumps(status).encode(), service=CRI_SERVICE
    )

    assert shown.mounts[0].options[0] == "rw"
    given = json.loads(answer)["runtimeSpec"]["mounts"][0]["options"]
    for options in list(shown.mounts[0].options), given:
        assert options[1].partition("redacted-")[0] in {"password=", "a=b,pass="}
        assert len(options[1].partition("redacted-")[2]) == 12


@pytest.mark.parametrize(
    ("image", "end"),
    [
        ("registry:hunter2x/shop/app:1", "/shop/app:1"),
        ("u:hunter2x@registry.acme.corp/a", "/a"),
        ("u:hun'ter2x x@quay.io/a@sha256:" + "ab" * 32, "@quay.io/a@sha256:" + "ab" * 32),
        ("hunter2x@quay.io/a", "@quay.io/a"),
    ],
)
def test_an_invalid_port_of_an_image_is_replaced(image: str, end: str) -> None:
    name = container(image=api.Image(name=image)).image.name

    assert "hun" not in name and "ter2x" not in name and name.endswith(end)


@pytest.mark.parametrize(
    "content",
    [
        'if (api_key != "{}") {{',
        "if (db_pass === '{}') {{",
        'password "{}";',
        "secret := `{}`",
        "--password '{}' is too long",
    ],
)
def test_credentials_in_source_code_are_replaced_by_name(content: str) -> None:
    assert "y2z3" not in text(content.format("x1 y2z3" if "`" not in content else "x1y2z3"))


def test_data_of_a_kubernetes_secret_is_replaced_encoded_and_decoded() -> None:
    # base64 of hunter2hunter2
    packed = "aHVudGVyMmh1bnRlcjI="
    manifest = f"apiVersion: v1\nkind: Secret\ndata:\n  type: {packed}\n  user: amFuZWpvZQ==\n"
    for content in (
        manifest,
        f"kind: ConfigMap\n---\n{manifest}---\nkind: Pod\n",
        json.dumps({"kind": "Secret", "data": {"type": packed, "user": "amFuZWpvZQ=="}}),
        json.dumps({"files": {"a.yaml": manifest}}),
        "data: {type: " + packed + ", user: amFuZWpvZQ==}\nkind: Secret\n",
    ):
        redactor = Redactor(Rules.DEFAULT, KEY)
        shown = redactor.text(content)

        assert packed not in shown and "amFuZWpvZQ" not in shown and "Secret" in shown
        assert "hunter2" not in redactor.text("it is hunter2hunter2")


# -- unchanged --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        'credentials: {"type": "service_account", "token_uri": "https://example.com/a"}\n',
        "auth: none\nwebhook: enabled\nmax_tokens: 4096\n",
        "HOST=db; PWD=/srv/data; cd $PWD",
        "PWD=/srv/data;OLDPWD=/;HOST=db",
        "token_ttl: 10m\nauth: ldap,token\n",
        "volumes:\n- name: a\n  secret:\n    secretName: b\n    items:\n    - path: c\n",
        "imagePullSecrets:\n- name: regcred\n",
        "port: 80 # the password is elsewhere\n",
        "policy: static\ncpus: [1, 2]\nclasses:\n- name: gold\n  weight: 3\n",
        "passwordFile: /run/secrets/a\nkubeconfig: /etc/kubernetes/kubelet.conf\n",
        'level=info msg="synchronizing state" auth=none took=3ms',
        "<config><port>80</port><auth>basic</auth></config>",
        "image: quay.io/org/app:1.2@sha256:" + "ab" * 32,
        "oci://localhost:5000/app@sha256:" + "ab" * 32,
        "see http://localhost:8080/a@b",
        "main.go:12:34: cannot use x",
        "10:30:15 a:b:c:d",
        'the password "must not be empty"',
        "printf 'one\\ntwo\\n' && echo a \\\n  b",
        "0000:3b:00.0,0000:3b:00.1",
    ],
)
def test_texts_similar_to_credentials_are_unchanged(content: str) -> None:
    assert text(content) == content


@pytest.mark.parametrize(
    "entry",
    [
        "JAVA_OPTS=-Xmx512m -XX:+UseG1GC -Dfile.encoding=UTF-8 -Dfoo=bar -javaagent:/opt/a.jar",
        "RUST_LOG=info,foo=debug,hyper::client=trace",
        "NODE_OPTIONS=--max-old-space-size=4096",
        "CFLAGS=-O2 -Wall -fPIC -I/usr/include",
        "GODEBUG=gctrace=1,madvdontneed=1",
        "GIT_COMMIT=8f14e45fceea167a5a36dedd4bea2543c9f0f895",
        "NVIDIA_REQUIRE_CUDA=cuda>=12.2 brand=tesla,driver>=470,driver<471",
        "PCIDEVICE_INTEL_COM_SRIOV=0000:3b:00.0,0000:3b:00.1",
        "NGINX_VERSION=1.25.3",
        "PG_VERSION=16.1-1.pgdg120+1",
        "JAVA_VERSION=jdk-17.0.2+8",
        "K8S_VERSION=v1.29.0-eks-036c24b",
        "APP_VERSION=2.0.0-rc.1",
        "NV_CUDNN_VERSION=9.1.0.70-1",
        "NV_CUDNN_VERSION=9.1.0.70",
        "NVIDIA_VISIBLE_DEVICES=GPU-3f0c5c1e-7d3b-4a55-9c2e-0a1b2c3d4e5f",
        "NVIDIA_VISIBLE_DEVICES=MIG-GPU-3f0c5c1e-7d3b-4a55-9c2e-0a1b2c3d4e5f/1/0",
        "JAVA_TOOL_OPTIONS=-Xmx1g -Djava.net.preferIPv4Stack=true -Dfoo.http2.use=off",
        "MAX_TOKENS=4096",
        "AUTH=none",
        "WEBHOOK=enabled",
        "ETCD_INITIAL_CLUSTER_TOKEN=etcd-cluster-1",
        "KUBECONFIG=/etc/kubernetes/admin.conf",
        "AUTH_TYPE=ldap",
    ],
)
def test_variables_for_debugging_are_unchanged(entry: str) -> None:
    assert list(container(env=[entry]).env) == [entry]


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ("JAVA_OPTS=-Xmx1g -Dspring.datasource.password=x1y2 -Da=b", "JAVA_OPTS=-Xmx1g "),
        ("JAVA_OPTS=-Xmx1g -Dlicense=x1y2-z3w4", "JAVA_OPTS=-Xmx1g -Dlicense="),
        ("RUST_LOG=info,foo=x1y2", "RUST_LOG="),
        ("EXTRA_ARGS=--password x1y2z --debug", "EXTRA_ARGS=--password "),
    ],
)
def test_an_invalid_setting_is_replaced(entry: str, left: str) -> None:
    (shown,) = container(env=[entry]).env

    assert "x1y2" not in shown and shown.startswith(left) and "redacted-" in shown


@pytest.mark.parametrize("word", ["4096", "enabled", "1024000", "basic"])
def test_a_number_or_word_that_is_a_password_goes_there_and_stays_elsewhere(word: str) -> None:
    shown = container(
        env=[f"DB_PASSWORD={word}", f"LIMIT={word}"],
        args=["app", "--max-tokens=4096", f"--limit={word}", f"--password={word}"],
        annotations={"a/limit": f"limit {word}"},
        rlimits=[api.POSIXRlimit(type="RLIMIT_NOFILE", hard=4096, soft=4096)],
    )
    assert shown.env[0].startswith("DB_PASSWORD=redacted-")
    assert shown.args[3].startswith("--password=redacted-")
    assert shown.env[1] == f"LIMIT={word}"
    assert list(shown.args)[:3] == ["app", "--max-tokens=4096", f"--limit={word}"]
    assert shown.annotations["a/limit"] == f"limit {word}"


@pytest.mark.parametrize("key", ["user", "username"])
def test_a_password_after_the_user_of_a_mount_is_replaced(key: str) -> None:
    options = [f"vers=3.0,{key}=jane%x1y2z3w4,uid=0", f"{key}=jane"]
    request = api.CreateContainerRequest(
        container=api.Container(id="c1", mounts=[api.Mount(destination="/d", options=options)])
    )
    content = Redactor(Rules.DEFAULT, KEY).request("CreateContainer", request.SerializeToString())
    shown = api.CreateContainerRequest.FromString(content).container.mounts[0].options

    assert re.fullmatch(rf"vers=3.0,{key}=redacted-\w{{12}}%redacted-\w{{12}},uid=0", shown[0])


@pytest.mark.parametrize("source", ["//app:{}@server/share", "//acme;app:{}@server/share"])
def test_a_password_in_the_source_of_a_mount_is_replaced(source: str) -> None:
    for secret in ("x1y2z3w4", "x1@y2/z3w4", "x1 y2z3w4"):
        shown = container(mounts=[api.Mount(destination="/a", source=source.format(secret))])

        assert "z3w4" not in str(shown)
        assert shown.mounts[0].source.endswith("@server/share")


@pytest.mark.parametrize("source", ["//server/share", "/var/lib/a:b@c", "/proc", "nfs:/a", "//a@b"])
def test_a_source_of_a_mount_without_a_password_is_unchanged(source: str) -> None:
    shown = container(mounts=[api.Mount(destination="/a", source=source)])

    assert shown.mounts[0].source == source


def test_a_password_split_at_commas_in_mount_options_is_replaced() -> None:
    given = [
        "rw",
        "password=x1",
        "y2z3w4",
        "word",
        "noexec",
        "vers=3.0",
        "soft",
        "key=k9m8n7",
        "ro",
    ]
    shown = container(mounts=[api.Mount(destination="/a", type="cifs", options=given)])
    status = {"runtimeSpec": {"mounts": [{"destination": "/a", "options": given}]}}
    answer = Redactor(Rules.DEFAULT, KEY).reply(
        CONTAINER_STATUS, json.dumps(status).encode(), service=CRI_SERVICE
    )

    of_status = json.loads(answer)["runtimeSpec"]["mounts"][0]["options"]
    for options in list(shown.mounts[0].options), of_status:
        assert not re.search("x1|y2z3|word|k9m8", "\n".join(options).replace("password=", ""))
        assert [options[at] for at in (0, 4, 5, 6, 8)] == ["rw", "noexec", "vers=3.0", "soft", "ro"]
    again = container(mounts=[api.Mount(destination="/a", options=shown.mounts[0].options)])
    assert again.mounts[0].options == shown.mounts[0].options


@pytest.mark.parametrize(
    "config",
    [
        {"Password": ["a", {"x": "x1y2z3w4"}]},
        {"db": {"clientSecret": [[{"x": {"y": ["x1y2z3w4"]}}]]}},
        {"passwords": {"a": [{"b": "x1y2z3w4"}]}},
    ],
)
def test_members_of_lists_under_a_credential_key_are_replaced(config: dict[str, object]) -> None:
    for written in json.dumps(config), f"config: {json.dumps(config)} done", yaml.safe_dump(config):
        shown = text(written)

        assert "y2z3" not in shown
        assert text(shown) == shown


def test_other_members_of_lists_are_unchanged() -> None:
    config = {
        "imagePullSecrets": [{"name": "registry"}],
        "auth": [{"realm": "shop", "type": "basic"}],
        "volumes": [{"secret": {"secretName": "a", "items": [{"key": "b", "path": "c"}]}}],
        "password": {"policy": [{"least": "eight", "special": "one"}]},
    }
    assert json.loads(text(json.dumps(config))) == config
    assert yaml.safe_load(text(yaml.safe_dump(config))) == config


@pytest.mark.parametrize("scheme", ["GenieKey", "SSWS", "Token", "Bearer", "AWS4-HMAC-SHA256"])
def test_the_scheme_of_a_header_is_unchanged(scheme: str) -> None:
    header = f"Authorization: {scheme} x1y2z3w4"
    for content in header, f"curl -H '{header}' db", f"it sent {header}", f"a='{header}'":
        redactor = Redactor(Rules.DEFAULT, KEY)
        shown = redactor.text(content)

        assert f"{scheme} redacted-" in shown and "y2z3" not in shown
        assert scheme not in {original.value for original in redactor.originals()}


def test_a_header_scheme_that_is_a_known_secret_is_replaced() -> None:
    # Here the scheme is also the value of another variable.
    shown = container(
        env=["DB_PASSWORD=GenieKey"], args=["curl", "-H", "Authorization: GenieKey x1y2z3w4", "db"]
    )
    assert "GenieKey" not in str(shown) and "y2z3" not in str(shown)
