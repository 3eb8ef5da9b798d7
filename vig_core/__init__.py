"""The pure scheduling core: same events and instants in, same actions out."""
