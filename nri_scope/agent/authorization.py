# SPDX-License-Identifier: Apache-2.0
"""Ask the API server of Kubernetes who calls the agent, and which events the caller may read.

In: the bearer tokens of calls, and the namespaces that their requests name. Out: a call goes on, or
ends with an error of gRPC. Tokens are neither stored nor printed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from time import monotonic
from typing import Any

from grpclib.const import Status
from grpclib.events import RecvRequest
from grpclib.exceptions import GRPCError

from nri_scope.errors import UsageError
from nri_scope.recording.node_files import AUDIENCE

REVIEW_S = 3.0
"""Seconds for one question to the API server."""
CHECK_S = 8.0
"""Seconds for all questions about a call."""
CACHED_S = 10.0
"""Seconds for which an answer counts."""
RECHECK_S = 60.0
"""Seconds after which a call that goes on is checked again."""
NAMESPACES_MAX = 300
"""Maximum number of namespaces of a request."""
_ASKED_SINGLY = 8
"""Number of namespaces above which the whole cluster is asked about first."""
READ_REDACTED = ("get", "log")
"""What pods print is as confidential as their redacted events."""
READ_UNREDACTED = ("create", "exec")
"""A user who may run a program in a pod can read its environment, with its secrets."""
_CACHED_MAX = 1_000
_ANSWER_MAX = 1 << 20
_THREADS = 4
SERVICE = "/nri_scope.agent.v1.Agent/"
"""Beginning of the methods that are guarded: health and reflection tell nothing of recordings."""
_STATUS = f"{SERVICE}GetStatus"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder of the token and the CA's certificate that Kubernetes gives to a pod."""


class ReviewError(Exception):
    """The API server does not answer, or not as expected."""


class ApiServer:
    """Client of the API server, with the ServiceAccount of this pod."""

    def __init__(self, folder: Path = ACCOUNT) -> None:
        """``folder``: see `ACCOUNT`. Raises UsageError."""
        self._folder = folder
        try:
            self._host = os.environ["KUBERNETES_SERVICE_HOST"]
            self._port = int(os.environ["KUBERNETES_SERVICE_PORT"])
            self._credentials()
        except (KeyError, ValueError, OSError) as error:
            reason = f"{error.args[0]} is not set" if isinstance(error, KeyError) else error
            raise UsageError(
                f"--authorize: this is no pod with a ServiceAccount of Kubernetes: {reason}",
                "deploy/kustomize/components/authorize gives the agent one",
            ) from error

    def review(self, group: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Create a review; return its status. Raises ReviewError."""
        document = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        try:
            token, context = self._credentials()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            address = self._host, self._port
            with closing(HTTPSConnection(*address, timeout=REVIEW_S, context=context)) as server:
                path = f"/apis/{group}/v1/{kind.lower()}s"
                server.request("POST", path, json.dumps(document), headers)
                answer = server.getresponse()
                content = answer.read(_ANSWER_MAX)
            if answer.status != 201:
                raise ReviewError(f"{kind}: status {answer.status}")
            return dict(json.loads(content)["status"])
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            raise ReviewError(f"{kind}: {type(error).__name__}") from error

    def _credentials(self) -> tuple[str, ssl.SSLContext]:
        # They are renewed from time to time.
        token = (self._folder / "token").read_text("ascii").strip()
        context = ssl.create_default_context(cafile=self._folder / "ca.crt")
        # Many clusters' certificates lack extensions that Python 3.13 and later ask for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return token, context


class Authorizer:
    """Decides which calls go on. Use it in one event loop."""

    def __init__(self, server: ApiServer, permission: tuple[str, str]) -> None:
        """``permission``: verb and subresource of pods, such as `READ_REDACTED`."""
        self._server = server
        self._verb, self._subresource = permission
        self._threads = ThreadPoolExecutor(_THREADS, "reviews")
        self._known: dict[tuple[bytes, str | None], tuple[float, Any]] = {}
        """When the API server answered, and what; by hash of the token and namespace."""

    async def check(self, token: str, namespaces: Sequence[str]) -> None:
        """Raise GRPCError unless a caller may read the events of all these namespaces.

        The namespace "" stands for all of the cluster. Without namespaces, each user may call.
        """
        if not token:
            raise GRPCError(Status.UNAUTHENTICATED, "the call has no bearer token")
        if len(namespaces) > NAMESPACES_MAX:
            raise GRPCError(Status.INVALID_ARGUMENT, f"more than {NAMESPACES_MAX} namespaces")
        digest = hashlib.sha256(token.encode()).digest()
        try:
            async with asyncio.timeout(CHECK_S):
                user = await self._answer((digest, None), partial(self._user, token))
                if not user:
                    text = "the API server does not accept the token of the caller"
                    raise GRPCError(Status.UNAUTHENTICATED, text)
                # One answer suffices for a caller who may read all.
                if len(namespaces) > _ASKED_SINGLY and await self._answer(
                    (digest, ""), partial(self._may, user, "")
                ):
                    namespaces = ()
                for name in namespaces:
                    may = partial(self._may, user, name)
                    if not await self._answer((digest, name), may):
                        where = f"namespace {name}" if name else "all namespaces, as for a node"
                        what = f"{self._verb} pods/{self._subresource} in {where}"
                        text = f"user {user.get('username')} may not {what}"
                        raise GRPCError(Status.PERMISSION_DENIED, text)
        except (ReviewError, TimeoutError) as error:
            reason = f"it did not answer within {CHECK_S:g} s"
            reason = str(error) if isinstance(error, ReviewError) else reason
            text = f"the API server does not tell who calls: {reason}"
            raise GRPCError(Status.UNAVAILABLE, text) from error

    async def _answer(self, key: tuple[bytes, str | None], ask: Callable[[], Any]) -> Any:
        """Return what the API server answered a short time ago, or answers now."""
        now = monotonic()
        at, answer = self._known.get(key, (now - CACHED_S, None))
        if now >= at + CACHED_S:
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
            if len(self._known) >= _CACHED_MAX:
                self._known.clear()
            self._known[key] = now, answer
        return answer

    def _user(self, token: str) -> dict[str, Any]:
        """Return the user of a token, for the API server or for agents; empty if there is none."""
        spec: dict[str, Any] = {"token": token}
        status = self._server.review("authentication.k8s.io", "TokenReview", spec)
        if status.get("authenticated") is not True:
            spec["audiences"] = [AUDIENCE]
            status = self._server.review("authentication.k8s.io", "TokenReview", spec)
            # An API server without audiences accepts its own tokens.
            audiences = status.get("audiences") or ()
            if status.get("authenticated") is not True or AUDIENCE not in audiences:
                return {}
        return dict(status["user"])

    def _may(self, user: dict[str, Any], namespace: str) -> bool:
        """Return whether a user has the permission in a namespace."""
        pods = {"resource": "pods", "subresource": self._subresource, "namespace": namespace}
        identity = {name: user.get(name) for name in ("uid", "groups", "extra")}
        attributes = {**pods, "verb": self._verb}
        spec = {"user": user["username"], **identity, "resourceAttributes": attributes}
        status = self._server.review("authorization.k8s.io", "SubjectAccessReview", spec)
        return status.get("allowed") is True


class Caller:
    """The user behind one call, who is checked at its beginning and while it goes on."""

    def __init__(self, authorizer: Authorizer, event: RecvRequest) -> None:
        self._authorizer = authorizer
        header = str(event.metadata.get("authorization", ""))
        self._token = header.removeprefix("Bearer ")
        self._is_status = event.method_name == _STATUS
        self._namespaces: Sequence[str] = ()
        self._checked = -RECHECK_S

    async def begin(self, request: Any) -> None:
        """Check the caller of a request. Raises GRPCError."""
        if not self._is_status:
            # Any other answer may have names of pods.
            self._namespaces = getattr(request, "namespaces", ()) or ("",)
        await self.go_on()

    async def go_on(self) -> None:
        """Check the caller again, if that is due. Raises GRPCError."""
        if monotonic() >= self._checked + RECHECK_S:
            await self._authorizer.check(self._token, self._namespaces)
            self._checked = monotonic()
