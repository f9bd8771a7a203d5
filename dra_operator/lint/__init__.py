"""What in manifests will not work, and why, before it is applied."""
