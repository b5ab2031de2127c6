"""The kit is imported as the tools import it: by the folder above it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
