"""``vig doctor``: everything that can be wrong before the first frame, one small check each."""
