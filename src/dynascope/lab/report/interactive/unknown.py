"""The exception for artists that the converter refuses."""


class UnknownArtist(ValueError):
    """A figure has something that the converter does not know. The still shows it."""
