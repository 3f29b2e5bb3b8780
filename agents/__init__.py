"""What thinks and pays: the loop, its models, and the purse that meters them."""
