# SPDX-License-Identifier: Apache-2.0
"""Read the recordings of other nodes, through the agents of a Kubernetes cluster.

In: the user's ``kubectl``, which authenticates and forwards ports; answers of agents, which are
untrusted. Out: local recordings that follow those of nodes, states of nodes. This package never
shows anything, and keeps no credentials.
"""
