"""Raw EHR → one coded-event table, the one way into the system."""
