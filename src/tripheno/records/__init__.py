"""Raw EHR → one coded-event table, the one door into the system."""
