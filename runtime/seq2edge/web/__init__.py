"""Make and serve web sites that run bundles in the browser."""
