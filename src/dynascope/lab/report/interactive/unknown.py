"""The exception for artists that the converter refuses."""


class UnknownArtist(ValueError):
    """A figure has an artist that the converter does not support. The still image shows it."""
