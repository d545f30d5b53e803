"""Landing: segments on disk, where messages wait until a drain takes them."""
