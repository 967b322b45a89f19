"""The commands of the export layer; each imports only click at its top."""
