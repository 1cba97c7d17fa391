# SPDX-License-Identifier: Apache-2.0
"""Values that a runtime generates for one container, such as ids, and tokens of redaction."""

from __future__ import annotations

import re
from typing import NamedTuple

from nri_scope.events import Pod
from nri_scope.nri.request_subject import workload_of
from nri_scope.share.redaction.tokens import HOST_SUFFIX, PLAIN_TOKEN, TOKEN_PREFIX
from nri_scope.specs import Json, Spec

INCOMPARABLE = "tokens of two workloads, or by two keys, differ even for equal values"
MIN_ID = 6
"""Minimum length of a replaced id, in characters. Runtimes' ids have 64, uids 36; shorter ids could
be ordinary words."""

_TIMES = frozenset({"io.kubernetes.cri-o.Created", "kubernetes.io/config.seen"})
_ADDRESS = "io.kubernetes.cri-o.IP."

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PATTERNS = (
    # Namespaces of the pod: containerd names them by a process, CRI-O and CNI by a random name.
    (re.compile(r"^/proc/\d+/ns/"), "/proc/<pid>/ns/"),
    (re.compile(rf"((?:ipc|net|pid|user|uts)ns/(?:cni-)?){_UUID}$"), r"\1<uuid>"),
    # A container's own layer, in CRI-O's storage.
    (re.compile(r"(/overlay/)[0-9a-f]{64}(/merged)"), r"\1<layer>\2"),
    # The kubelet's names: a container's termination log, the volume of the API server's token.
    (re.compile(r"(/containers/[^/]+/)[0-9a-f]{8}$"), r"\1<file>"),
    (re.compile(r"(/kube-api-access-)[a-z0-9]{5}(?=/|$)"), r"\1<name>"),
)


_VOLATILE = re.compile(
    rf"(?<![0-9a-z]){_UUID}(?![0-9a-z])"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
    r"(?:Z| ?[+-][0-9]{2}:?[0-9]{2})?",
    re.IGNORECASE,
)
"""Ids and times in any value, also in those of plugins."""
TOKEN_NAME = "<redacted>"
_TOKENS = re.compile(
    rf"{PLAIN_TOKEN}|(?<![\w.])198\.1[89](?:\.[0-9]{{1,3}}){{2}}(?![\w.])|2001:db8:[0-9a-f:]*"
)
_EXTENDED_TOKENS = re.compile(
    rf"/?{PLAIN_TOKEN}(?:@redacted)?(?:{re.escape(HOST_SUFFIX)})?|{_TOKENS.pattern}"
)
"""Tokens, with what gives a token the form of its original."""


class ComparableSpec(NamedTuple):
    """A spec without generated values."""

    spec: Spec
    tokens: frozenset[str]
    """Tokens of redaction in its values, without addresses."""
    redacted: int
    """Number of its values with tokens."""


def are_comparable(name_a: str, a: ComparableSpec, name_b: str, b: ComparableSpec) -> bool:
    """Return whether different tokens in the specs of two containers mean different values.

    Only the containers of one name in one workload have common tokens, if one key made them, as a
    common token shows. Addresses do not show it, as there are few.
    """
    if not (a.redacted and b.redacted):
        return True
    is_same = workload_container(name_a) == workload_container(name_b)
    return is_same and not a.tokens.isdisjoint(b.tokens)


def workload_container(name: str) -> str:
    """Return ``ns/workload/container`` for the name ``ns/pod/container``."""
    namespace, _, rest = name.partition("/")
    pod, _, container = rest.partition("/")
    return f"{namespace}/{workload_of(pod)}/{container}"


def differ_only_in_generated(before: Json, after: Json) -> bool:
    """Return whether two texts, or lists of texts, differ only in ids, times and tokens.

    A token in one of them stands for any text in the other.
    """
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(
            isinstance(text, str) and differ_only_in_generated(text, other)
            for text, other in zip(before, after, strict=True)
        )
    if not (isinstance(before, str) and isinstance(after, str)):
        return False
    before, after = (_VOLATILE.sub("<generated>", text) for text in (before, after))
    return before == after or _has_form(before, after) or _has_form(after, before)


def _has_form(plain: str, redacted: str) -> bool:
    """Return whether `plain` has no tokens, and the beginning and end of `redacted`, which has."""
    begin, *others = _EXTENDED_TOKENS.split(redacted)
    if not others or _TOKENS.search(plain):
        return False
    return plain.startswith(begin) and plain[len(begin) :].endswith(others[-1])


class Generated:
    """The generated values of one container."""

    def __init__(
        self, container_id: str, pod_id: str = "", pod_uid: str = "", pod_name: str = ""
    ) -> None:
        names = {
            pod_name: "<pod name>",
            container_id: "<container id>",
            pod_id: "<pod id>",
            pod_uid: "<pod uid>",
            # The spelling in names of systemd slices.
            pod_uid.replace("-", "_"): "<pod uid>",
        }
        self._names = {text: name for text, name in names.items() if len(text) >= MIN_ID}
        longest_first = sorted(self._names, key=len, reverse=True)
        # Not inside a longer word, except after "pod", which kubelets prepend to a uid.
        self._ids = re.compile(
            rf"(?:(?<![0-9A-Za-z])|(?<=pod))(?:{'|'.join(map(re.escape, longest_first))})"
            r"(?![0-9A-Za-z])"
            if self._names
            else r"(?!)"
        )

    @classmethod
    def of(cls, container_id: str, pod: Pod | None, *, has_name: bool = False) -> Generated:
        """Return the generated values of a container in `pod`; None for an unknown pod.

        ``has_name``: the pod's name is generated, too.
        """
        if pod is None:
            return cls(container_id)
        return cls(container_id, pod.id, pod.uid, pod.name if has_name else "")

    def text(self, text: str, *, hides_tokens: bool = False) -> str:
        """Return `text` with generated values replaced.

        ``hides_tokens``: with tokens replaced, too, as they cannot be compared.
        """
        if len(text) < MIN_ID:
            return text
        text = self._ids.sub(self._name, text)
        if "/" in text:
            for pattern, replacement in _PATTERNS:
                text = pattern.sub(replacement, text)
        return _TOKENS.sub(TOKEN_NAME, text) if hides_tokens else text

    def comparable(self, spec: Spec, *, hides_tokens: bool = False) -> ComparableSpec:
        """Return `spec` with generated values replaced, in values and in keys.

        ``hides_tokens``: with all tokens of redaction in values equal.
        """
        new: Spec = {}
        tokens: set[str] = set()
        redacted = 0
        # Iterative: a runtime's message may be nested deeper than Python's stack allows.
        work: list[tuple[Json, Json]] = [(spec, new)]

        def copied(value: Json) -> Json:
            nonlocal redacted
            if isinstance(value, str):
                text = self.text(value)
                if matches := _TOKENS.findall(text):
                    redacted += 1
                    tokens.update(token for token in matches if token.startswith(TOKEN_PREFIX))
                return self.text(text, hides_tokens=True) if matches and hides_tokens else text
            if not isinstance(value, dict | list):
                return value
            copy: Json = {} if isinstance(value, dict) else []
            work.append((value, copy))
            return copy

        while work:
            source, target = work.pop()
            if isinstance(source, dict) and isinstance(target, dict):
                for key, value in source.items():
                    target[self._ids.sub(self._name, key)] = copied(value)
            elif isinstance(source, list) and isinstance(target, list):
                target.extend(map(copied, source))
        annotations = new.get("annotations")
        if isinstance(annotations, dict):
            for key in annotations:
                if key in _TIMES:
                    annotations[key] = "<time>"
                elif key.startswith(_ADDRESS):
                    annotations[key] = "<pod address>"
        return ComparableSpec(new, frozenset(tokens), redacted)

    def original(self, path: str) -> str:
        """Return the container's own path for a `path` in a comparable spec."""
        for text, name in self._names.items():
            path = path.replace(name, text)
        return path

    def _name(self, match: re.Match[str]) -> str:
        return self._names[match[0]]
