"""The bridge: ResourceSlices for nodes that have a device plugin and no DRA driver. Pure; who writes them is the operator."""
