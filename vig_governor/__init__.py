"""The ROS 2 side of the governor: everything that touches the world."""
