"""The consumer of all arms: notes when results and statuses reach its callbacks."""

import json
from pathlib import Path
import sys
from typing import Any

from benchmark.live.worker import say, serve, spin_until_told

from diagnostic_msgs.msg import DiagnosticArray

from vig_governor.demo.consumer import Consumer, Need


class LiveConsumer(Consumer):
    """Notes also what the governor says of itself."""

    def __init__(self, needs: dict[str, Need]) -> None:
        super().__init__(needs)
        self.diagnostics: list[dict[str, Any]] = []
        self._is_active = False
        self.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 10)

    def _on_governor(self, status: Any) -> None:
        super()._on_governor(status)
        if status.lifecycle_state == 'active' and not self._is_active:
            self._is_active = True
            say('active')

    def _on_diagnostics(self, array: DiagnosticArray) -> None:
        for entry in array.status:
            if entry.name.endswith(': governor'):
                self.diagnostics.append({
                    'received': self.get_clock().now().nanoseconds,
                    **{pair.key: pair.value for pair in entry.values}})

    def plans(self) -> dict[str, Any]:
        """Give what the governor plans for a run of each stream at the end, and its margin."""
        return {stream.stream: {
            'planned_ms': round(stream.planned_runtime.sec * 1e3
                                + stream.planned_runtime.nanosec / 1e6, 2),
            'margin_percent': stream.margin_percent}
            for stream in (self.governor.streams if self.governor else ())}


def play(cell: dict[str, Any]) -> None:
    """Note one cell and write it down."""
    node = LiveConsumer({stream['name']: Need(stream['topic'], 0, 0)
                         for stream in cell['streams']})
    say('ready')
    spin_until_told(node)
    record = node.record()
    for notes in record.values():
        del notes['outputs']
    Path(cell['consumer_log']).write_text(json.dumps(
        {'streams': record, 'diagnostics': node.diagnostics, 'plans': node.plans()}),
        encoding='utf-8')
    node.destroy_node()


if __name__ == '__main__':
    sys.exit(serve(play))
