"""Models: one gateway that owns retries and money, over adapters that only send."""
