"""``make bench-live``: three ways to use one server, with real ROS and a real Triton."""
