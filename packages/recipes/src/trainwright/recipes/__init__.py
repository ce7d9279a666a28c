"""What a run is: configuration, recipes, selection, overrides."""
