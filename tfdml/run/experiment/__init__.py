"""From flags to data, devices and models."""
