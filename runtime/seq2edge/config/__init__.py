"""Define the settings that the manifest, the command line and the API share."""
