# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of speed, memory and file size, next to Go programs in the same run where possible.

`python -m benchmarks` runs all of them. Compare the ratios: absolute numbers depend on the machine.
"""
