"""The state machine over queue, allocator and reports: `observe(event)`, `decide(now)`, `settle(outcome)`.

Sans-IO and deterministic: the same inputs in the same order give the same decisions. The only clock is the `now` it is given.
"""
