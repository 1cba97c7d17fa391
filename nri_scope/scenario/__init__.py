# SPDX-License-Identifier: Apache-2.0
"""Describe pods, containers and their events as text that people write.

In: scenarios and Kubernetes manifests as text. Out: the requests that a runtime sends to plugins.
This room never connects to a runtime or a plugin.
"""
