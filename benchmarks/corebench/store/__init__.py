"""Datasets by name and their capsules on this machine: downloaded, checked, unpacked, counted, removed."""
