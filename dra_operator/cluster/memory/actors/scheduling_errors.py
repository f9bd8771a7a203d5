"""Why a scheduling cycle ends without a node."""


class NotYet(Exception):
    """The pod cannot be scheduled before something about its claims changes."""


class ClaimError(Exception):
    """A cycle that ended in an error: a write was refused, or a selector failed."""
