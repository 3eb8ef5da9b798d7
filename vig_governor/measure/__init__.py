"""Measuring what models cost on a real server; never imports rclpy."""
