"""An embedded Kubernetes: the API semantics the operator relies on, and what the other actors of a cluster do, in virtual time.

Synchronous and deterministic: the same objects, seed and steps give the same bytes. It is not a general API server: it serves the
kinds of `cluster.rest.RESOURCES` with the rules that matter to device allocation, kept true by the one suite of API semantics
that runs against it and against a real control plane.
"""
