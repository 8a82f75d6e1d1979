"""Names under which the recorder marks its own doings, so that analysis can tell them apart."""

RUN = "tprofile::run"
"""Around each profiled run, the synchronise at its end included."""

WARMUP = "tprofile::warmup"
"""Around the run that warms up the profiler itself: what was recorded up to its end is dropped."""

SYNCHRONIZE = "tprofile::synchronize"
"""Around our own wait for the device: never one of the user's rows."""

BEFORE = "tprofile::each"
"""Around what resets the state ahead of a run: in no run, so in no figure."""

KEPT = (RUN, SYNCHRONIZE, BEFORE)
"""Those that stand in a recorded trace."""
