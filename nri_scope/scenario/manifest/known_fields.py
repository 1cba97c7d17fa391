# SPDX-License-Identifier: Apache-2.0
"""Names of fields of Kubernetes 1.34 (k8s.io/api/core/v1), to notice misspelt ones."""

from __future__ import annotations


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
