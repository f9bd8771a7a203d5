"""Older dialects to `resource.k8s.io/v1`: earlier API versions, the string dialect, device-plugin workloads.

Values in, values out: `conversion` is the way in; `documents` applies a conversion to YAML text and keeps its comments. Nothing here
reads files or talks to a cluster, and nothing guesses: what has no faithful translation is an `Untranslatable`.
"""
