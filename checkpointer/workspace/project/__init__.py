"""The git repository that a workspace is in or holds: found as git finds it, looked at, never written."""
