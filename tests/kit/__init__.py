"""This project's own test kit: small studies, engine processes, faults, networks, servers."""
