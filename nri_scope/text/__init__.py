# SPDX-License-Identifier: Apache-2.0
"""Turn values into text that is safe on a terminal, in Markdown and in YAML.

In: any text, also an untrusted one. Out: the same with control characters escaped, or as a YAML
scalar. It never knows what the text means or where it is printed.
"""
