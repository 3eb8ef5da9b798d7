"""A network file run by LiteRT on one thread; the only module here that needs LiteRT."""

from pathlib import Path

from ai_edge_litert.interpreter import Interpreter
import numpy as np
from numpy.typing import NDArray


class LiteRtNetwork:
    """One ``.tflite`` file with an image input of a fixed size."""

    def __init__(self, path: Path) -> None:
        self._interpreter = Interpreter(model_path=str(path), num_threads=1)
        self._interpreter.allocate_tensors()
        image = self._interpreter.get_input_details()[0]
        self._input = image['index']
        self._outputs = self._interpreter.get_output_details()
        self.height, self.width = (int(size) for size in image['shape'][1:3])
        self.output_shapes = [tuple(int(size) for size in output['shape'])
                              for output in self._outputs]

    def run(self, image: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Run ``float32[1, height, width, 3]``; the outputs come in the order of the shapes."""
        self._interpreter.set_tensor(self._input, image)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(output['index']) for output in self._outputs]
