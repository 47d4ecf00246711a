"""What all commands share: arguments, configs, the grid, records, tables."""
