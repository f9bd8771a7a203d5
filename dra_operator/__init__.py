"""dra-operator: priority-aware device allocation for Kubernetes Dynamic Resource Allocation."""

__version__ = "0.1.0"
