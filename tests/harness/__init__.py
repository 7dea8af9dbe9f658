"""What black-box tests stand on: whole manifests, a private world around one workspace, real git repositories."""
