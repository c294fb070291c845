"""Which memcore this is; built packages take the number from here."""

__version__ = "0.1.0"
