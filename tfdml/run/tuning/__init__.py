"""Search for the settings of a run by successive halving, each trial an ordinary run on validation classes."""
