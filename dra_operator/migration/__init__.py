"""From device plugins to DRA: what a cluster has of both, what to change phase by phase, and whether it holds. Pure values."""
