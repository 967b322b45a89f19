"""One module a command; each imports only click at its top."""
