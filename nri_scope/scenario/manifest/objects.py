# SPDX-License-Identifier: Apache-2.0
"""Find the pods in a manifest: alone, in a list, or as the template of a workload.

Pods of a workload get the names and labels that its controller gives them. The names of the fields
of Kubernetes 1.34 (k8s.io/api/core/v1) serve to notice misspelt ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from nri_scope.errors import UsageError
from nri_scope.text.escape import safe
from nri_scope.text.yaml_reader import MalformedYaml

from ..model import meant
from .field import ManifestField, ManifestValue, parse_documents
from .node_facts import number_of, suffix_of, uid_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


METADATA = _words(
    "name generateName namespace selfLink uid resourceVersion generation creationTimestamp"
    " deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers"
    " managedFields"
)
POD_SPEC = _words(
    "volumes initContainers containers ephemeralContainers restartPolicy"
    " terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName"
    " serviceAccount automountServiceAccountToken nodeName hostNetwork hostPID hostIPC"
    " shareProcessNamespace securityContext imagePullSecrets hostname subdomain affinity"
    " schedulerName tolerations hostAliases priorityClassName priority dnsConfig readinessGates"
    " runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints"
    " setHostnameAsFQDN os hostUsers schedulingGates resourceClaims resources"
    " hostnameOverride"
)
CONTAINER = _words(
    "name image command args workingDir ports envFrom env resources resizePolicy restartPolicy"
    " restartPolicyRules volumeMounts volumeDevices livenessProbe readinessProbe startupProbe"
    " lifecycle terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext"
    " stdin stdinOnce tty"
)
POD_SECURITY_CONTEXT = _words(
    "seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot supplementalGroups"
    " supplementalGroupsPolicy fsGroup sysctls fsGroupChangePolicy seccompProfile appArmorProfile"
    " seLinuxChangePolicy"
)
SECURITY_CONTEXT = _words(
    "capabilities privileged seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot"
    " readOnlyRootFilesystem allowPrivilegeEscalation procMount seccompProfile"
    " appArmorProfile"
)
RESOURCES = frozenset(("limits", "requests", "claims"))
ENV = frozenset(("name", "value", "valueFrom"))
ENV_SOURCE = frozenset(
    ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
)
ENV_FROM = frozenset(("prefix", "configMapRef", "secretRef"))
VOLUME_MOUNT = _words(
    "name readOnly recursiveReadOnly mountPath subPath mountPropagation subPathExpr"
)
VOLUME_DEVICE = frozenset(("name", "devicePath"))
VOLUME_SOURCES = _words(
    "hostPath emptyDir gcePersistentDisk awsElasticBlockStore gitRepo secret nfs iscsi glusterfs"
    " persistentVolumeClaim rbd flexVolume cinder cephfs flocker downwardAPI fc azureFile configMap"
    " vsphereVolume quobyte azureDisk photonPersistentDisk projected portworxVolume scaleIO"
    " storageos csi ephemeral image"
)


SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_UID = re.compile(r"[A-Za-z0-9-]{1,128}", re.ASCII)
_MAX_BASE = 58
"""Names of workloads are cut to this length when the API server appends five characters."""
MAX_PODS = 1_000

_TEMPLATES = {
    "Pod": "",
    "PodTemplate": "template",
    "Deployment": "spec.template",
    "ReplicaSet": "spec.template",
    "ReplicationController": "spec.template",
    "DaemonSet": "spec.template",
    "StatefulSet": "spec.template",
    "Job": "spec.template",
    "CronJob": "spec.jobTemplate.spec.template",
}
_VERSIONS = {
    **dict.fromkeys(("Pod", "PodTemplate", "ReplicationController"), "v1"),
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"), "apps/v1"),
    **dict.fromkeys(("Job", "CronJob"), "batch/v1"),
}
"""API versions by kind; others of these groups are no longer served."""
_LISTS = re.compile(r"(?:\w*)List", re.ASCII)
KINDS = "Pod, Deployment, DaemonSet, StatefulSet, ReplicaSet, Job, CronJob"


@dataclass(frozen=True, slots=True)
class PodObject:
    """A pod before the kubelet sees it, with the identity that the cluster gives it."""

    field: ManifestField
    """The pod or the template."""
    name: str
    namespace: str
    uid: str
    labels: dict[str, str]
    annotations: dict[str, str]
    hostname: str = ""
    """Hostname that a controller sets."""
    replicas: int = 1
    """Number of equal pods that the workload asks for."""
    remarks: tuple[str, ...] = ()

    @property
    def spec(self) -> ManifestField:
        """The pod's specification."""
        return self.field["spec"]

    @property
    def status(self) -> ManifestField:
        """The pod's status; without a value in a manifest that was not read from a cluster."""
        return self.field["status"]


@dataclass(frozen=True, slots=True)
class KubernetesManifest:
    """Pods of a manifest, and other objects in it to which they may refer."""

    pods: list[PodObject]
    others: dict[tuple[str, str, str], ManifestField]
    """By kind, namespace ("" for RuntimeClass) and name."""


def read_manifest(text: str, source: str, namespace: str) -> KubernetesManifest:
    """Read a manifest; ``namespace`` is that of objects without one. Raises UsageError."""
    try:
        documents = parse_documents(text)
    except MalformedYaml as error:
        position = f"{safe(source)}:{error.line}" if error.line else safe(source)
        raise UsageError(f"{position}: {error.problem}", error.hint) from None
    reader = _Reader(source, namespace)
    for document in documents:
        reader.read(ManifestField(source, "", document.line, document))
    return reader.manifest()


@dataclass(slots=True)
class _Reader:
    source: str
    namespace: str
    pods: list[PodObject] = field(default_factory=list)
    others: dict[tuple[str, str, str], ManifestField] = field(default_factory=dict)
    names: set[tuple[str, str]] = field(default_factory=set)
    first_other: ManifestField | None = None

    def read(self, document: ManifestField) -> None:
        kind = document["kind"].required_text()
        version = document["apiVersion"].text()
        # Other groups, whose names have dots, may have kinds of the same name.
        if kind in _TEMPLATES and "." not in version:
            if version not in ("", _VERSIONS[kind]):
                problem = f"{safe(version, 80)!r} is not an API version of {kind}"
                raise document["apiVersion"].error(problem, f"write {_VERSIONS[kind]}")
            pod = self._pod(kind, document)
            if (pod.namespace, pod.name) in self.names:
                raise document["metadata"].error(f"there are two pods {pod.namespace}/{pod.name}")
            self.names.add((pod.namespace, pod.name))
            self.pods.append(pod)
            if len(self.pods) > MAX_PODS:
                raise document["kind"].error(f"more than {MAX_PODS} pods")
        elif kind not in _TEMPLATES and kind.lower() in map(str.lower, _TEMPLATES):
            raise _no_kind(document["kind"])
        elif _LISTS.fullmatch(kind):
            if document["items"].node is None:
                raise document["items"].missing()
            for item in document["items"].items():
                # Objects of a typed list have no kind.
                inner = kind.removesuffix("List")
                self.read(_with_kind(item, inner) if inner and not item["kind"] else item)
        else:
            name = document["metadata"]["name"].text()
            own = document["metadata"]["namespace"].text(self.namespace)
            self.others[kind, "" if kind == "RuntimeClass" else own, name] = document
            self.first_other = self.first_other or document["kind"]

    def manifest(self) -> KubernetesManifest:
        if not self.pods:
            hint = f"kinds with pods are {KINDS}, and lists of them"
            if self.first_other is not None:
                kind = safe(self.first_other.text(), 80)
                if kind not in _TEMPLATES and meant(kind, _TEMPLATES):
                    raise _no_kind(self.first_other)
                raise self.first_other.error(f"a {kind} has no pods", hint)
            raise UsageError(f"{safe(self.source)}: there are no pods in it", hint)
        return KubernetesManifest(self.pods, self.others)

    def _pod(self, kind: str, document: ManifestField) -> PodObject:
        metadata = document["metadata"]
        metadata.unknown_keys(METADATA)
        generated = metadata["generateName"].text()
        if not metadata["name"] and generated:
            name = generated[:_MAX_BASE] + suffix_of(5, kind, generated)
            if not SUBDOMAIN.fullmatch(name):
                raise metadata["generateName"].error("is not the start of a name")
        else:
            name = metadata["name"].name(SUBDOMAIN, "a name (lower case letters, digits, - and .)")
        namespace = self.namespace
        if metadata["namespace"]:
            namespace = metadata["namespace"].name(LABEL, "a namespace")
        uid = uid_of(kind, namespace, name)
        if metadata["uid"]:
            uid = metadata["uid"].name(_UID, "a uid")
        pod = document
        for key in filter(None, _TEMPLATES[kind].split(".")):
            pod = pod[key]
        if not pod["spec"]:
            raise pod["spec"].missing()
        own = pod["metadata"]
        labels, annotations = own["labels"].string_map(), own["annotations"].string_map()
        template = PodObject(pod, name, namespace, uid, labels, annotations)
        return template if kind == "Pod" else _controlled(kind, document, template)


def _no_kind(field: ManifestField) -> UsageError:
    kind = field.text()
    hint = f"did you mean {meant(kind, _TEMPLATES)}?"
    return field.error(f"there is no kind {safe(kind, 80)}", hint)


def _with_kind(item: ManifestField, kind: str) -> ManifestField:
    if item.node is None or not isinstance(item.node.value, dict):
        raise item.error("an object is needed")
    entries = {"kind": ManifestValue(item.line, kind, kind), **item.node.value}
    return ManifestField(item.source, item.path, item.line, ManifestValue(item.line, entries))


def _controlled(kind: str, document: ManifestField, workload: PodObject) -> PodObject:
    """Return a workload's first pod. ``workload`` has the identity of the workload."""
    spec, name, labels = document["spec"], workload.name, dict(workload.labels)
    annotations = dict(workload.annotations)
    identity = (kind, workload.namespace, name)
    # Ten characters of the alphabet of generated names, as of a hash of the template.
    revision = suffix_of(10, "revision", *identity)
    hostname, base, count = "", name, spec["replicas"]
    match kind:
        case "Deployment":
            base = f"{name}-{revision}"
            labels["pod-template-hash"] = revision
        case "DaemonSet":
            labels |= {"controller-revision-hash": revision, "pod-template-generation": "1"}
        case "StatefulSet":
            first = str(spec["ordinals"]["start"].integer())
            hostname = f"{name}-{first}"
            labels |= {
                "apps.kubernetes.io/pod-index": first,
                "controller-revision-hash": f"{name}-{revision}",
                "statefulset.kubernetes.io/pod-name": hostname,
            }
        case "Job" | "CronJob":
            job, uid = name, workload.uid
            if kind == "CronJob":
                # The minutes since 1970 of the scheduled time.
                job = f"{name}-{number_of(29_000_000, 29_999_999, *identity)}"
                uid = uid_of("Job", workload.namespace, job)
                spec = spec["jobTemplate"]["spec"]
            count, base = spec["parallelism"], job
            labels |= {
                "batch.kubernetes.io/controller-uid": uid,
                "batch.kubernetes.io/job-name": job,
                "controller-uid": uid,
                "job-name": job,
            }
            if spec["completionMode"].text() == "Indexed":
                base = hostname = f"{job}-0"
                key = "batch.kubernetes.io/job-completion-index"
                labels[key] = annotations[key] = "0"
    if kind == "StatefulSet":
        pod_name = hostname
    else:
        # The dash belongs to the name that the API server completes.
        pod_name = f"{base}-"[:_MAX_BASE] + suffix_of(5, "pod", *identity)
    replicas = 1 if kind in ("DaemonSet", "PodTemplate") else count.integer(1)
    remarks = [f"the name and the uid of this pod of {kind} {name} are made up"]
    if replicas != 1:
        remarks.append(f"{kind} {name} asks for {replicas} pods; this is one of them")
    return replace(
        workload,
        name=pod_name,
        uid=uid_of("Pod", workload.namespace, pod_name),
        labels=labels,
        annotations=annotations,
        hostname=hostname,
        replicas=replicas,
        remarks=tuple(remarks),
    )
