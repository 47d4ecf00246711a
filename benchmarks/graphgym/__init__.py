"""Configs of GraphGym, and a loader of their data sets."""
