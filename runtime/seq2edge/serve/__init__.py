"""Serve bundles over HTTP: the API of LibreTranslate, an API with every option, and a page."""
