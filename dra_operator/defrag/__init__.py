"""Rearranging: which few holders to move so that one that waits fits, everybody who moves included. Pure; evicts nobody."""
