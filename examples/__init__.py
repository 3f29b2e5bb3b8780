"""Examples that come with agentctl: `dataset.json` in CORE-Bench's form, and its capsules in `capsules/`."""
