"""What is measured: the benchmarks, and the one way to run an attempt at them."""
