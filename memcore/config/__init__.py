"""The config: one description of one job, its schema, validation and codecs."""
