# SPDX-License-Identifier: Apache-2.0
"""The file of a recording: its schema, its packed contents, and who may change it.

In: a path, whose folder other users may be able to write to, and contents. Out: the schema and its
check, packed contents, limits of rows, whether the location is safe, a connection for writing
(`writable_file`), and one line for each reason why there is none (`file_errors`). This package
never decodes what was recorded.
"""
