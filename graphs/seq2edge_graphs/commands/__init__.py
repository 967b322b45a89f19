"""Commands that shape bundles without PyTorch; each module imports only click at its top."""
