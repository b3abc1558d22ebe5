"""What may enter, what may leave, and the record of it: small cells and the audit chain."""
