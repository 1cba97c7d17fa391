# SPDX-License-Identifier: Apache-2.0
"""Convert Kubernetes manifests to the pods and containers that NRI plugins would get.

In: manifests as text, a profile of a runtime and facts about a node. Out: NRI's messages, with
notes on what no manifest states. Stages: `objects` finds pods, `pod_spec` reads them with the API
server's defaults, `kubelet` makes the requests of the kubelet, and `containerd` and `cri_o` make
what these runtimes send to plugins; `manifest_scenario` does so for iSulad. This package never asks
a cluster, and reads no file.
"""
