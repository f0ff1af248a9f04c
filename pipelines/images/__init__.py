"""Image files: headers, decoding, cropping and resizing."""
