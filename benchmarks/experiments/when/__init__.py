"""When does which readout help? Sets whose label depends on one known thing."""
