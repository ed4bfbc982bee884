"""The parts of run.py: processes, one measurement, sections, report."""
