# SPDX-License-Identifier: Apache-2.0
"""Places of a message that hold a secret: those that identify it as one, and others."""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Callable

from nri_scope._gen.nri import api_pb2 as api

Plant = Callable[[api.CreateContainerRequest, str], None]


def _in_env(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.env.append(f"ANYTHING={secret}")


def _in_option(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.args.append(f"--api-key={secret}")


def _after_option(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.args.extend(["--password", secret])


def _in_script(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.args.extend(["sh", "-c", f"export DB_PASSWORD='{secret}'; run"])


def _in_annotation(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.annotations["example.com/api-token"] = secret


def _in_label(request: api.CreateContainerRequest, secret: str) -> None:
    request.pod.labels["client-secret"] = secret


def _in_mount_option(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.mounts.add(
        destination="/data", type="cifs", options=["username=app", f"password={secret}"]
    )


def _in_hook(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.hooks.prestart.add(path="/bin/hook", env=[f"ANYTHING={secret}"])


def _in_hook_args(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.hooks.poststop.add(path="/bin/hook", args=["hook", f"--token={secret}"])


def _in_json(request: api.CreateContainerRequest, secret: str) -> None:
    request.pod.annotations["example.com/config"] = json.dumps({"a": [{"password": secret}]})


def _in_base64(request: api.CreateContainerRequest, secret: str) -> None:
    content = json.dumps({"auths": {"registry": {"auth": secret}}}).encode()
    request.pod.annotations["example.com/pull"] = base64.b64encode(content).decode()


def _in_url(request: api.CreateContainerRequest, secret: str) -> None:
    quoted = urllib.parse.quote(secret, safe="")
    request.container.args.append(f"postgres://app:{quoted}@db.example.net:5432/shop")


def _in_raw_url(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.annotations["example.com/url"] = f"amqp://app:{secret}@mq:5672"


def _in_manifest(request: api.CreateContainerRequest, secret: str) -> None:
    request.pod.annotations["kubectl.kubernetes.io/last-applied-configuration"] = json.dumps(
        {"spec": {"containers": [{"env": [{"name": "ANYTHING", "value": secret}]}]}}
    )


def _in_unknown_field(request: api.CreateContainerRequest, secret: str) -> None:
    content = secret.encode()
    # Field 999, length-delimited; merging is how unknown fields get into a message.
    request.container.MergeFromString(b"\xba\x3e" + bytes([len(content)]) + content)


# Places that identify a value as a secret.
TELLING = [
    _in_env,
    _in_option,
    _after_option,
    _in_script,
    _in_annotation,
    _in_label,
    _in_mount_option,
    _in_hook,
    _in_hook_args,
    _in_json,
    _in_base64,
    _in_url,
    _in_raw_url,
    _in_manifest,
    _in_unknown_field,
]


def _bare_argument(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.args.append(f"serve {secret}")


def _bare_annotation(request: api.CreateContainerRequest, secret: str) -> None:
    request.pod.annotations["example.com/note"] = f"see {secret}, or ask"


def _bare_mount(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.mounts.add(
        destination=f"/run/{secret}",
        source=f"/var/lib/kubelet/pods/8f14e45f/volumes/kubernetes.io~secret/{secret}",
        options=[f"lowerdir=/x/{secret}"],
    )


def _bare_in_base64(request: api.CreateContainerRequest, secret: str) -> None:
    content = base64.b64encode(f'{{"note": "it is {secret}"}}'.encode())
    request.container.annotations["example.com/packed"] = content.decode()


def _bare_status(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.status_message = f"exec: {secret}: not found"


def _bare_sysctl(request: api.CreateContainerRequest, secret: str) -> None:
    request.container.linux.sysctl["kernel.domainname"] = secret
    request.container.linux.resources.unified["memory.high"] = secret


# Places that do not.
BARE = [
    _bare_argument,
    _bare_annotation,
    _bare_mount,
    _bare_in_base64,
    _bare_status,
    _bare_sysctl,
]
