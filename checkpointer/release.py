"""Which version of this package this is: written into every log that it owns."""

VERSION = "0.1.0"
