"""An index as a service over HTTP, which `python -m tfdml.serve` runs."""
