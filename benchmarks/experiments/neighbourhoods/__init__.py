"""Aggregations inside a layer: many sets of a few neighbours."""
