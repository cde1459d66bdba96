"""The API, `/api/v1`: one module per noun, and the description made from them."""
