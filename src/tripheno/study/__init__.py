"""The study as one program that every hospital runs; the coordinator only adds."""
