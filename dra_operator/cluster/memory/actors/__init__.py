"""The parts that others play in a cluster: controllers, the scheduler, kubelets. Each follows the event log in virtual time.

Not copies of the upstream controllers: each does what the operator and its users can observe of them, with small fixed delays.
"""
