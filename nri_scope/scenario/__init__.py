# SPDX-License-Identifier: Apache-2.0
"""Scenarios: what a runtime tells plugins about pods and containers, written as text.

In: YAML, which may be untrusted; or a recording; or manifests of Kubernetes. Out: a recording that
can be replayed, or the text of a scenario. This room never runs a plugin and never connects to a
runtime: its recordings say that they were made from a scenario.
"""
