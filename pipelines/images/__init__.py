"""Image files: headers, decoding, cutting and resizing."""
