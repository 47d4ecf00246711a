"""Readouts of graph networks against each other, with labels."""
