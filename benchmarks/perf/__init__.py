"""Our speed, measured side by side: commands that print ratios. Never run as tests."""
