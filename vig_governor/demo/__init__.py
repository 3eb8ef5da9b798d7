"""The demo: a real server, real models, real video, supervised."""
