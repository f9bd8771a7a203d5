"""Labels, annotations and other names the operator puts on objects or reads from them."""

from __future__ import annotations

MANAGED_LABEL = "dra-operator.dev/managed"
GATE = "dra-operator.dev/allocation"
GROUP_LABEL = "dra-operator.dev/claim-group"

#: Set by the PATCH that restores the finalizer of a claim kube-controller-manager freed: a pod has used it.
USED_BY = "dra-operator.dev/used-by"

#: Set by the PATCH that removes our gate (RFC 3339 time). A pod without gate and without this was never ours:
#: it was created before the install, in an exempt namespace, or somebody else took the gate off.
UNGATED_AT = "dra-operator.dev/ungated-at"

#: A PriorityClass name, for claims whose pods name none.
PRIORITY_CLASS = "dra-operator.dev/priority-class"

#: On a DeviceClass: the device plugin's resource for the same devices. Nodes that offer it are left to the plugin.
PLUGIN_RESOURCE = "dra-operator.dev/plugin-resource"
#: The taint on devices of such nodes.
PLUGIN_TAINT = "dra-operator.dev/device-plugin"

#: In whose name the bridge publishes devices of nodes that have a plugin alone.
BRIDGE_DRIVER = "bridge.dra-operator.dev"

#: Keeps others than the operator from allocating managed claims, kube-scheduler among them.
GUARD_POLICY = "dra-operator-guard"

DEFAULT_SCHEDULER = "default-scheduler"
EXTENDED_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"
