"""Let these tests share the virtual server and the witness here."""

from pathlib import Path
import sys

_TEST = Path(__file__).resolve().parent.parent
for _folder in (_TEST / 'core',):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))
