# SPDX-License-Identifier: Apache-2.0
"""Serve the recordings of one node: events and parts over gRPC, metrics over HTTP.

In: a folder of recordings, which recorders write and remove; requests of clients, which are
untrusted. Out: messages of `nri_scope.agent.v1`, bundles and Prometheus metrics. This package never
connects to a runtime, and never writes to a recording.
"""
