"""ROS time for every frame: the system's clock itself, unless something simulates time."""

import time

from rclpy.clock import JumpThreshold, ROSClock, TimeJump


class RosTime:
    """
    Reads a node's ROS clock.

    Without ``use_sim_time`` ROS time *is* the system's time. rclpy's ``Clock.now`` says so too, by
    way of three objects: half of what the callback of a frame cost (adr/0023).
    """

    def __init__(self, clock: ROSClock) -> None:
        """Follow the clock; ``close`` leaves it."""
        self._clock = clock
        self._is_simulated = clock.ros_time_is_active
        self._handle = clock.create_jump_callback(
            JumpThreshold(min_forward=None, min_backward=None, on_clock_change=True),
            post_callback=self._changed)

    def now_ns(self) -> int:
        """Tell the present on the ROS clock; 0 while simulated time has not begun."""
        if self._is_simulated:
            return int(self._clock.now().nanoseconds)
        return time.time_ns()

    def close(self) -> None:
        """Follow the clock no more."""
        self._handle.unregister()

    def _changed(self, jump: TimeJump) -> None:
        self._is_simulated = self._clock.ros_time_is_active
