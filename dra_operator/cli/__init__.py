"""`dra-operator` and `kubectl-dra`. Reads files and flags, prints; no algorithms."""
