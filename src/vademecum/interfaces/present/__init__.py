"""What every interface shows: values turned into JSON and into text, once."""
