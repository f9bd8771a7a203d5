"""The engine on a real cluster: Kopf handlers, leadership, probes, metrics, Events. No algorithms."""
