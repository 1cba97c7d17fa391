# SPDX-License-Identifier: Apache-2.0
"""How fast and how small `nri-scope` is, beside Go programs in the same run where there are any.

`python -m benchmarks` runs everything; numbers of one machine mean little, their ratios more.
"""
