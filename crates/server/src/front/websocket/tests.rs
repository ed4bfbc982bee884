//! Frames that are scanned, and connections that are spliced.
