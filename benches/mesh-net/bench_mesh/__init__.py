"""What `run.py` measures."""
