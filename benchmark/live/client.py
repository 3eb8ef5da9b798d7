"""The nodes of arms without a governor, one process for each stream; warm from cell to cell."""

import sys
from typing import Any

from benchmark.live.worker import say, serve, spin_until_told

from vig_governor.allocator import keep_freed_memory
from vig_governor.backend.triton import TritonBackend
from vig_governor.demo.direct import DirectNode, DirectStream


def play(cell: dict[str, Any]) -> None:
    """Serve the stream whose number is this process's for one cell."""
    stream = cell['streams'][int(sys.argv[1])]
    backend = TritonBackend(cell['endpoint'], http_endpoint=cell['http_endpoint'])
    backend.connect(timeout_s=5)
    backend.open_stream(stream['name'], slots=cell['depth'], transport='shm')
    node = DirectNode(DirectStream(stream['name'], stream['topic'], stream['backend_model'],
                                   cell['depth'], cell['keeps_newest']), backend)
    say('ready')
    spin_until_told(node)
    node.close()
    backend.close()
    node.destroy_node()


if __name__ == '__main__':
    keep_freed_memory()
    sys.exit(serve(play))
