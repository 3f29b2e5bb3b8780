"""The texts an agent is given, as data, and the pure function that puts them together."""
