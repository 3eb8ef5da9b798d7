"""
Perception around the networks of the demo: from an RGB frame to boxes, joints and masks.

The package has relative imports only and needs numpy and OpenCV, plus LiteRT where a network is
run, so that Triton's Python backend can import it from its own environment, where neither ROS
nor this project is installed. Frames are ``uint8[height, width, 3]`` in RGB; coordinates that
come out are pixels of that frame, x to the right and y down.
"""
