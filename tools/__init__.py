"""What acts: the tools an agent may call, and the sandboxes they act in."""
