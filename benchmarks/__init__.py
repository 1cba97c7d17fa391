# SPDX-License-Identifier: Apache-2.0
"""How fast and how small `nri-scope record` and `replay` are, beside Go programs in the same run.

`python -m benchmarks` runs everything; numbers of one machine mean little, their ratios more.
"""
