"""Typed objects of `resource.k8s.io/v1`, core and our own CRDs: what the other layers read, and nothing they do.

Read from JSON dictionaries, compact and immutable. Not a client and not a validator of everything the API server checks: a parser
raises `InvalidObject` only for what it cannot give a meaning to.
"""
