"""The API, `/api/v1`: one module per noun, and the description that is made from them."""
