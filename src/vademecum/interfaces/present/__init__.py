"""Turn values into JSON and text, once for every interface."""
